package console

// Question is what somebody asks the manual.
type Question struct {
	Words    string            // a topic, or what they want to know about
	Commands map[string]string // all commands, and what each does in a line
	Answer   string            // what there is to say, if the words are known; may be empty
	See      []string          // the commands and topics that tell more about known words, best first
}
