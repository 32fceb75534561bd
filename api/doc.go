// Package api holds the shapes that travel over the wire: what the daemon
// answers and what it is asked. They are the contract with programs in other
// languages, so a field here never changes its name or its meaning.
package api
