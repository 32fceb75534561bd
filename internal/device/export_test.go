package device

// XIDCodes lists the codes of the catalogue as they stand in it.
func XIDCodes() []int {
	var codes []int
	for _, entry := range xidCatalogue {
		codes = append(codes, entry.codes...)
	}
	return codes
}
