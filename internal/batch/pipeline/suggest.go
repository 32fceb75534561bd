package pipeline

import "github.com/berth-gpu/berth/internal/text/words"

// suggest says which of the known words was perhaps meant, and else which there
// are.
func suggest(word, noun string, known []string) string {
	return words.Suggest(word, known, noun+": "+listed(known))
}

// listed names things with commas; of many, the first few.
func listed(list []string) string { return words.Few(list, 12) }
