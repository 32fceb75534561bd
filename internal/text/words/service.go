package words

import "strings"

// Service returns the canonical name of a service. Dashes and underscores mean the same,
// so embedding_service is embedding-service: in berth.yaml, in requests, on the command
// line and in the journal.
func Service(name string) string { return strings.ReplaceAll(name, "_", "-") }
