package xid

// Codes lists the codes of the catalogue as they stand in it.
func Codes() []int {
	var codes []int
	for _, entry := range catalogue {
		codes = append(codes, entry.codes...)
	}
	return codes
}
