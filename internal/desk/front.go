package desk

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/text/words"
)

// FrontState returns how the front is, or nil if there is to be none. Only operators see
// why it does not run.
func (d *Services) FrontState(by access.Actor) *api.FrontState {
	if d.front == nil {
		return nil
	}
	s := d.front.State()
	if s != nil && s.Why != "" && access.May(by, access.Inspect, access.Everything()) != nil {
		s.Why = "it does not run; operators see why"
	}
	return s
}

// isFront refuses everybody but the front: it calls over the Unix socket as the user that
// it runs as, from the namespaces of the machine and without a token.
func (d *Services) isFront(by *Caller) error {
	if d.owner != nil && d.front != nil && by.Door == access.Socket && by.Token == "" && by.Certain {
		if uid, runs := d.front.User(); runs && uid == by.UID {
			return nil
		}
	}
	return Refuse(Forbidden, "not_the_front", "Only the front of this daemon may do this: the process that takes requests for services, as the user that front.user names. Nothing was changed.")
}

// FrontOrders sends orders to a front until ctx ends, send fails, or the front asks again.
func (d *Services) FrontOrders(ctx context.Context, by Caller, front string, send func(api.FrontOrder) error) error {
	if err := d.isFront(&by); err != nil {
		return err
	}
	return d.owner.Orders(ctx, front, send)
}

// FrontReports takes in what a front reports.
func (d *Services) FrontReports(by Caller, r api.FrontReports) error {
	if err := d.isFront(&by); err != nil {
		return err
	}
	d.front.Seen(r.Front, r.Listen)
	return d.owner.Report(r)
}

// FrontBring brings a service for a front, and returns when it is open. It returns an
// *owner.Refusal if it does not come, and at once if it is asked for what the service waits.
func (d *Services) FrontBring(ctx context.Context, by Caller, b api.FrontBring) (api.FrontBrought, error) {
	if err := d.isFront(&by); err != nil {
		return api.FrontBrought{}, err
	}
	if b.Waited > 0 {
		return api.FrontBrought{}, d.late(by.Actor, b.Service, time.Duration(b.Waited*float64(time.Second)))
	}
	return d.owner.Bring(ctx, b)
}

// late says why a service has not come while a request waited for it. The front lets
// nobody in whose role is less than that of a user, so all who read it may know the names of
// users.
func (d *Services) late(by access.Actor, name string, waited time.Duration) error {
	by.Role = max(by.Role, access.User)
	s, err := d.Show(by, name)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("The service %s did not come within its start_timeout of %s: ", s.Name, words.Duration(waited))
	switch {
	case s.State == "starting":
		text += fmt.Sprintf("its program was started %s ago, and is not ready. berth logs %s shows its log.", words.Duration(time.Since(s.Since)), words.Shell(s.Name))
	case s.State == "waiting" && s.Why != "":
		text += "it waits: " + strings.TrimSuffix(s.Why, ".") + "."
	case s.Why != "":
		text += fmt.Sprintf("it is %s: %s.", s.State, strings.TrimSuffix(s.Why, "."))
	default:
		text += fmt.Sprintf("it is %s. berth services %s says more.", s.State, words.Shell(s.Name))
	}
	return &owner.Refusal{Status: http.StatusServiceUnavailable, Code: "start_timeout", Why: text, RetryAfter: lateAgain}
}

// lateAgain is when to ask again for a service that did not come in time.
const lateAgain = 10 * time.Second

// FrontCalled refuses a caller who is not the front, and may not ask who others are.
func (d *Services) FrontCalled(by Caller) error { return d.isFront(&by) }
