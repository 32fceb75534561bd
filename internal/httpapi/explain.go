package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/ledger"
)

func (s *server) explain(ctx context.Context, in *body[api.LeaseRequest]) (*answer[api.Explanation], error) {
	if in.Body.ID == "" {
		in.Body.ID = "(asked)"
	}
	request, err := s.request(ctx, in.Body)
	if err != nil {
		return nil, err
	}
	e, err := s.Ledger.Explain(request)
	if err != nil {
		return nil, refused(err)
	}
	out := explanationOf(e)
	if e.Grant != nil {
		would := s.equipped(e.Grant)
		out.Grant = &would
	}
	return ok(out)
}

func (s *server) explainWaiting(_ context.Context, in *named) (*answer[api.Explanation], error) {
	if e, _, waits := s.Ledger.ExplainWaiting(in.ID); waits {
		return ok(explanationOf(e))
	}
	if held, standing := s.Ledger.Find(in.ID); standing {
		return ok(api.Explanation{
			Fits: true, Possible: true, Devices: []api.Obstacle{},
			Text: fmt.Sprintf("%s does not wait: it was granted at %s.", in.ID, held.Granted.Format("15:04:05")),
		})
	}
	return nil, problem(http.StatusNotFound, "unknown_allocation", "Nothing with the id %q waits or is held. To ask about a request without making it, POST it to /api/leases/explain.", in.ID)
}

func explanationOf(e ledger.Explanation) api.Explanation {
	out := api.Explanation{Fits: e.Refusal == nil && e.Quota == nil, Possible: true, Position: e.Position, Devices: []api.Obstacle{}}
	for _, r := range e.Ahead {
		out.Behind = append(out.Behind, r.ID)
	}
	var sentences []string
	if e.Quota != nil {
		sentences = append(sentences, upperFirst(e.Quota.Error())+".")
	}
	if e.Refusal != nil {
		out.Possible, out.LargestNow, out.LargestEver, out.Hint = e.Refusal.Ever, e.Refusal.LargestNow, e.Refusal.LargestEver, e.Refusal.Hint
		sentences = append(sentences, upperFirst(e.Refusal.Error())+".")
		for _, r := range e.Refusal.Reasons {
			out.Devices = append(out.Devices, api.Obstacle{GPU: r.GPU, Code: string(r.Code), Text: r.Text, Holders: holdersOf(e.Holdings[r.GPU])})
		}
	}
	if e.Position > 0 {
		sentences = append(sentences, fmt.Sprintf("It is number %d in the queue.", e.Position))
	}
	if len(sentences) == 0 {
		sentences = append(sentences, "It would be granted now.")
	}
	out.Text = strings.Join(sentences, " ")
	return out
}

func holdersOf(all []lease.Holding) []api.HolderUntil {
	var out []api.HolderUntil
	for _, h := range all {
		u := api.HolderUntil{Lease: h.Lease.ID, Holder: holderOf(h.Lease.Holder), Memory: max(h.Part.Memory, h.Measured), Slots: h.Part.Slots}
		if !h.Lease.Expires.IsZero() {
			u.Until = &h.Lease.Expires
		}
		out = append(out, u)
	}
	return out
}
