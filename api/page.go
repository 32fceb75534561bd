package api

// More says whether a list continues beyond an answer. GET paths of lists take limit, the
// maximum number of entries in an answer, and after, the value of next in the previous
// answer.
type More struct {
	Next string `json:"next,omitempty" doc:"The list goes on: ask again with after and this text. Absent: this is the end."`
	Note string `json:"note,omitempty" doc:"For people: why the answer does not have everything, although no limit was given."`
}
