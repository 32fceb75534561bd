package pipeline

import (
	"fmt"
	"strings"
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
		if d := distance(word, strings.ToLower(w)); d < fewest {
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

// distance counts the letters to insert, remove or replace (Levenshtein). Only
// the beginning of a very long word counts.
func distance(a, b string) int {
	const longest = 64
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// listed names things with commas; of many, the first few.
func listed(words []string) string {
	const most = 12
	if len(words) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
	}
	return strings.Join(words, ", ")
}
