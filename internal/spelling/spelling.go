// Package spelling looks at the letters of words: how far a word is from
// another one, to name the nearest known word to somebody who mistyped it, and
// which of its characters can be shown.
package spelling

// Distance counts the letters to insert, remove or replace (Levenshtein). Only
// the beginning of a very long word counts.
func Distance(a, b string) int {
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
