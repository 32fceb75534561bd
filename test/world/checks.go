package world

// Checks are what must hold at every look at the machine, or at the end of a history. The page
// guarantees.md names them behind the promises that they hold.
var Checks = map[string]string{
	"sums":    "leases on a device add up to no more than it has",
	"alone":   "a device that is leased alone has no other lease, but for children and pods",
	"limits":  "a user with limits has no more than they allow",
	"kept":    "what was granted stands until something ends it that somebody did or that was agreed, and nobody is answered with a lease that is about to end",
	"ends":    "a lease ends with its time limit, and with its process",
	"fences":  "each grant has a fence of its own, larger than all before it",
	"answers": "every caller has an answer within the time that the route allows",
	"fault":   "no request meets a bug",
	"jobs":    "a job that was submitted is known, its command is started once for each try, and an end is final",
	"rest":    "once nobody asks any more, everything ends, and nothing is left of it",
	"usable":  "after all that, services answer, a lease is granted, and a job runs",
	"starts":  "a daemon starts with whatever the one before it left, and stops",
	"epochs":  "a stay of a service that was closed never opens again",
	"roles":   "a token gives what its role allows, and no more",
	"machine": "the world itself works",
}
