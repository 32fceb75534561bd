package words

// End returns the last characters of a text that is longer than most, with … in
// the place of those before them.
func End(text string, most int) string {
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return "…" + string(letters[len(letters)-most+1:])
}
