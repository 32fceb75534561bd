package api

// Backup says which file has a copy of the state of a daemon. It is the answer of berth
// backup --json.
type Backup struct {
	File    string `json:"file" doc:"The file."`
	Size    int64  `json:"size_bytes" doc:"Its size."`
	Secrets bool   `json:"secrets" doc:"It also has secrets."`
}
