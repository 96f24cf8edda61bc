"""Tests of fit."""
