package main

// operations returns the scenarios 11 to 19.
func operations() []Scenario { return nil }
