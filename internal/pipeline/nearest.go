package pipeline

import (
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/internal/spelling"
)

// nearest is the word that begins like word, or else differs from it in the
// fewest letters, and whether it is near enough to be what was meant.
func nearest(word string, words []string) (best string, near bool) {
	word = strings.ToLower(word)
	fewest := 1 << 30
	for _, w := range words {
		if len(word) >= 3 && strings.HasPrefix(w, word) {
			return w, true
		}
		if d := spelling.Distance(word, strings.ToLower(w)); d < fewest {
			best, fewest = w, d
		}
	}
	return best, fewest <= max(2, len(word)/4)
}

// suggest says which of words was perhaps meant, and else what there is.
func suggest(word, noun string, words []string) string {
	if best, near := nearest(word, words); near {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return fmt.Sprintf("%s: %s", noun, listed(words))
}

// listed names things with commas; of many, the first few.
func listed(words []string) string {
	const most = 12
	if len(words) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
	}
	return strings.Join(words, ", ")
}
