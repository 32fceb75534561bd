package main

func health() []Scenario { return nil }
