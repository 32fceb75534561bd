package api

// More says whether a list goes on beyond an answer. GET paths of lists take limit,
// the most entries of an answer, and after, the next of the answer before.
type More struct {
	Next string `json:"next,omitempty" doc:"The list goes on: ask again with after and this text. Absent: this is the end."`
	Note string `json:"note,omitempty" doc:"For people: why the answer does not have everything, although no limit was given."`
}
