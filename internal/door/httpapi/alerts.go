package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/text/term"
)

func registerAlerts(s *server) {
	const path = " /api/alerts/{fingerprint}/acknowledge"
	serve(s, on("GET /api/alerts", "alerts", "alerts", "The alerts that are pending or fire",
		"Callers who may not see the names of users do not see alerts whose labels or annotations name somebody."), s.alerts)
	serve(s, on("POST"+path, "alerts", "acknowledge", "Say that somebody takes care of an alert",
		"Until the time is over or the alert is resolved, hooks get nothing more about it. Acknowledging it again replaces the first.",
		http.StatusNotFound, http.StatusServiceUnavailable), s.acknowledge)
	serve(s, on("DELETE"+path, "alerts", "unacknowledge", "Take an acknowledgement back", "If the alert fires, an event says so again.",
		http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable), s.unacknowledge)
}

func (s *server) alerts(ctx context.Context, _ *struct{}) (*answer[api.Alerts], error) {
	out := api.Alerts{Alerts: s.alertsFor(sightOf(ctx))}
	if s.NoAlerts != nil {
		out.Note = s.NoAlerts()
	}
	return ok(out)
}

// alertsFor returns the alerts that are pending or fire, as a caller sees them.
func (s *server) alertsFor(by sight) []api.Alert {
	list := []api.Alert{}
	for _, a := range s.Alerts.Active() {
		if by.names() || !series.Tells(a.Labels) && !series.Tells(a.Annotations) {
			list = append(list, by.alert(&a))
		}
	}
	return list
}

// alert returns an alert as this caller sees it.
func (s sight) alert(a *alert.State) api.Alert {
	out := api.Alert{
		Fingerprint: a.Fingerprint, Alert: a.Name(), Severity: a.Severity(), State: string(a.Phase), Labels: a.Labels.Map(), Annotations: a.Annotations.Map(),
		Since: a.ActiveAt.UTC(),
	}
	if !math.IsNaN(a.Value) && !math.IsInf(a.Value, 0) {
		out.Value = &a.Value
	}
	if at := a.FiredAt.UTC(); a.Phase == alert.Firing {
		out.FiredAt = &at
	}
	if k := a.Acknowledged; k != nil {
		out.Acknowledged = &api.Acknowledgement{By: s.user(k.By.String()), At: k.At.UTC(), Until: k.Until.UTC(), Comment: k.Comment}
		if !s.names() {
			out.Acknowledged.Comment = ""
		}
	}
	return out
}

type alertName struct {
	Fingerprint string `path:"fingerprint" maxLength:"64" doc:"Fingerprint of the alert, as GET /api/alerts says it."`
}

type acknowledgeQuery struct {
	Fingerprint string `path:"fingerprint" maxLength:"64" doc:"Fingerprint of the alert, as GET /api/alerts says it."`
	Body        api.AcknowledgeRequest
}

func (s *server) acknowledge(ctx context.Context, in *acknowledgeQuery) (*answer[api.Alert], error) {
	lasts := time.Duration(in.Body.Hours * float64(time.Hour))
	a, err := s.Alerts.Acknowledge(identityOf(ctx).Actor, in.Fingerprint, lasts, term.Clean(strings.TrimSpace(in.Body.Comment)))
	return alertChanged(sightOf(ctx), &a, err)
}

func (s *server) unacknowledge(ctx context.Context, in *alertName) (*answer[api.Alert], error) {
	a, err := s.Alerts.Unacknowledge(identityOf(ctx).Actor, in.Fingerprint)
	return alertChanged(sightOf(ctx), &a, err)
}

func alertChanged(see sight, a *alert.State, err error) (*answer[api.Alert], error) {
	switch {
	case errors.Is(err, alert.ErrUnknown):
		return nil, problems.New(http.StatusNotFound, "unknown_alert", "No alert with this fingerprint is pending or fires. berth alerts (GET /api/alerts) lists those that are.")
	case errors.Is(err, alert.ErrNotAcknowledged):
		return nil, problems.New(http.StatusConflict, "not_acknowledged", "Nobody has acknowledged this alert.")
	case err != nil:
		return nil, err
	}
	return ok(see.alert(a))
}
