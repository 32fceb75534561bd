package config

import (
	"fmt"

	"github.com/berth-gpu/berth/internal/spelling"
)

// nearest is the word in words with the fewest letters different from word,
// and how many those are.
func nearest(word string, words []string) (string, int) {
	best, fewest := "", 1<<30
	for _, w := range words {
		if d := spelling.Distance(word, w); d < fewest {
			best, fewest = w, d
		}
	}
	return best, fewest
}

// slip is how many letters may differ in a slip of the pen.
func slip(word string) int { return max(2, len(word)/3) }

// suggestion says which of words was perhaps meant, or else where they all are.
func suggestion(word string, words []string, list string) string {
	best, d := nearest(word, words)
	if d <= slip(word) {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "there is none like it; " + list
}

// allSettings is where to find what can be set.
const allSettings = "berth config lists all of them"
