package desk

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/access"
)

// A misspelt user is answered with the one that was meant, and one like nobody with what
// can be written.
func TestQuotaOfAnUnknownUser(t *testing.T) {
	o := open(t, "1")
	operator := Caller{Actor: access.Actor{UID: 4242, User: "olga-the-operator", Door: access.Socket, Role: access.Operator}}
	for user, want := range map[string]string{
		"olga-the-opreator":   "did you mean olga-the-operator?",
		"nobody-of-this-name": "write a login name, a user id, token:NAME or cert:NAME.",
	} {
		_, err := o.People.Quota(operator, nil, user)
		wants(t, user, err, "unknown_user")
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", user, err)
		}
	}
}
