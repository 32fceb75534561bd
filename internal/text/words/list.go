package words

import (
	"slices"
	"strconv"
	"strings"
)

// And joins a list in words: "a", "a and b", "a, b and c".
func And(list []string) string { return series(list, " and ") }

// Or joins a choice in words: "a", "a or b", "a, b or c".
func Or(list []string) string { return series(list, " or ") }

func series(list []string, before string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + before + list[last]
}

// Few joins a list with commas. If the list has more than most entries, Few names the
// first ones and counts the others: "a, b and 3 more".
func Few(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:most], ", ") + " and " + strconv.Itoa(len(list)-most) + " more"
}

// Nearest returns the known name that a mistyped word probably means: the shortest one
// that begins with the word, or else the one that differs from it in the fewest letters,
// and of several such names one with the same letters.
// It reports whether that name is near enough to suggest. Nearest ignores case.
func Nearest(word string, known []string) (name string, near bool) {
	word = strings.ToLower(word)
	fewest, begins := 1<<30, false
	for _, candidate := range known {
		lower := strings.ToLower(candidate)
		prefix := len(word) >= 3 && strings.HasPrefix(lower, word)
		if begins && !prefix {
			continue
		}
		d := Distance(word, lower)
		if d < fewest || prefix && !begins || d == fewest && prefix == begins && sameLetters(word, lower) {
			name, fewest, begins = candidate, d, prefix
		}
	}
	most := max(2, len(word)/3)
	if len(word) < 5 { // two letters would be half of it
		most = 1
	}
	return name, begins || fewest <= most && fewest < len(word)
}

// sameLetters reports whether two words differ only in the order of their letters.
func sameLetters(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	letters, others := []byte(a), []byte(b)
	slices.Sort(letters)
	slices.Sort(others)
	return slices.Equal(letters, others)
}

// Suggest asks whether the user meant the nearest known name. If none is near, it returns
// otherwise, which says where to look.
func Suggest(word string, known []string, otherwise string) string {
	if name, near := Nearest(word, known); near {
		return "did you mean " + name + "?"
	}
	return otherwise
}

// Unlike returns the ids and names that somebody may have meant who wrote an unknown one:
// all but those that differ from it only by their numbers, which are other things.
func Unlike(text string, known []string) []string {
	stem := Stem(text)
	if stem == text {
		return known
	}
	return slices.DeleteFunc(slices.Clone(known), func(id string) bool { return Stem(id) == stem })
}

// Stem returns an id without its number and the dash before it. A task has a second number,
// after a dot.
func Stem(id string) string {
	at := strings.LastIndexByte(id, '-')
	if at < 1 || at == len(id)-1 || strings.Trim(id[at+1:], "0123456789.") != "" {
		return id
	}
	return id[:at]
}

// Distance counts the letters to insert, remove or replace; two neighbours that changed
// places count as one. Only the beginning of a very long word counts.
func Distance(a, b string) int {
	const longest = 64
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
