package main

func failures() []Scenario { return nil }
