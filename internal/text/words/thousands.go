package words

import "strconv"

// Thousands returns a large number in readable form: "1,234,567". It returns "0" for
// negative numbers.
func Thousands(n int64) string {
	digits := strconv.FormatInt(max(n, 0), 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// CountThousands returns a large number with its noun: "12,345 records".
func CountThousands(n int64, noun string) string {
	return Thousands(n) + " " + Form(n, noun, plural(noun))
}
