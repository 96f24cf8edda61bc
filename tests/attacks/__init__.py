def attacks(): return []
