package front

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
)

// A caller who may not is called by a name, or by what its number is.
func TestCallersAreCalledByWhatTheyAre(t *testing.T) {
	for user, want := range map[string]string{
		"ada": "ada has the role viewer here", "1007": "The user with the id 1007 has the role", "0": "Root, of this machine or of a container, has the role",
	} {
		_, refused := settle(api.FrontCaller{User: user, Role: "viewer"}, caller{})
		if refused == nil || !strings.HasPrefix(refused.Message, want) {
			t.Errorf("%s: %+v", user, refused)
		}
	}
}
