package tui

import "testing"

// A frame of the largest machine, as it is drawn at every key and every second.
func BenchmarkFrame(b *testing.B) {
	s := scene(200, 50, manyFacts(), "tab")
	s.Colours = true
	for b.Loop() {
		s.Press("down")
		s.Frame()
	}
}

// A frame of a thousand machines, as it is drawn at every key and every second.
func BenchmarkNodesFrame(b *testing.B) {
	s := nodesScene(200, 50, someNodes(1000))
	s.Colours = true
	for b.Loop() {
		s.Press("down")
		s.Frame()
	}
}
