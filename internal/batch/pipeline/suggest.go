package pipeline

import "github.com/berth-gpu/berth/internal/text/words"

// suggest returns which of the known words was perhaps meant, or else lists them.
func suggest(word, noun string, known []string) string {
	return words.Suggest(word, known, noun+": "+listed(known))
}

// listed joins names with commas. Of many, it lists the first few.
func listed(list []string) string { return words.Few(list, 12) }
