package words

import (
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
