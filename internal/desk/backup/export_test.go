package backup

var (
	CheckPast  = checkPast
	Castagnoli = castagnoli
)
