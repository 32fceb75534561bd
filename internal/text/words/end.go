package words

// End returns text, or for a text that is longer than most its last characters with …
// before them.
func End(text string, most int) string {
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return "…" + string(letters[len(letters)-most+1:])
}
