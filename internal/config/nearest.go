package config

import "fmt"

// nearest is the word in words with the fewest letters different from word,
// and how many those are.
func nearest(word string, words []string) (string, int) {
	best, fewest := "", 1<<30
	for _, w := range words {
		if d := distance(word, w); d < fewest {
			best, fewest = w, d
		}
	}
	return best, fewest
}

// slip is how many letters may differ in a slip of the pen.
func slip(word string) int { return max(2, len(word)/3) }

// suggestion says which of words was perhaps meant.
func suggestion(word string, words []string) string {
	best, d := nearest(word, words)
	if d <= slip(word) {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return fmt.Sprintf("the nearest known one is %s", best)
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
