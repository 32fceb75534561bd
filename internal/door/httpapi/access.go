package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
)

func registerAccess(s *server) {
	op := func(id, method, path, summary, description string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Description: description, Tags: []string{"access"}, MaxBodyBytes: maxBody}
	}
	huma.Register(s.api, op("whoami", http.MethodGet, "/api/whoami", "Who the daemon takes the caller for, and why",
		"docs/guide/access.md says what each role may do."), s.whoami)
	huma.Register(s.api, op("quota", http.MethodGet, "/api/quota", "What a user may have, and has",
		"Each limit with how much of it is used, and the entry of the configuration that sets it. Of others than oneself it needs the role operator."), func(ctx context.Context, in *quotaQuery) (*answer[api.Quota], error) {
		return answered(s.Desk.Quota(askerOf(ctx), limitsOf(ctx), in.User))
	})
	huma.Register(s.api, op("tokens", http.MethodGet, "/api/tokens", "The tokens that the daemon accepts, without their secrets",
		"A token without a time of creation stands in the configuration. Expired tokens are listed for 30 days."), s.tokens)
	create := op("create-token", http.MethodPost, "/api/tokens", "Make a token",
		"The answer shows the secret once; the daemon keeps only its hash. A request may bring its own secret of at least 32 characters. "+
			"A token has at most the role of whoever makes it. The same request again, with the same secret, changes nothing; with replace, it takes the place of the token of that name.")
	create.DefaultStatus = http.StatusCreated
	create.Errors = []int{http.StatusConflict}
	huma.Register(s.api, create, s.createToken)
	revoke := op("revoke-token", http.MethodDelete, "/api/tokens/{name}", "Refuse a token from now on",
		"Event streams, lease streams and waiting requests of its holder end at once. Its leases stand until they are released or expire.")
	revoke.Errors = []int{http.StatusNotFound, http.StatusConflict}
	huma.Register(s.api, revoke, s.revokeToken)
}

func (s *server) whoami(ctx context.Context, _ *struct{}) (*answer[api.Whoami], error) {
	c := doorkeeper.Of(ctx)
	who := c.Identity()
	out := api.Whoami{
		User: who.User, Role: who.Role.String(), Door: string(who.Door), Token: who.Token, Service: who.Service,
		Why: []string{"the command runs the daemon in its own process"},
	}
	if who.UID != access.NoUID {
		out.UID = gpu.Some(who.UID)
	}
	if own := c.Session(); own != nil {
		shown := s.sessionOf(own, c)
		out.Session = &shown
	}
	if known, rules, is := c.Known(); is {
		out.Why = rules.Why(&known)
		if (known.Shown.Kind == access.NoCredential || known.Shown.Kind == access.Session) && who.UID != access.NoUID {
			for _, g := range rules.Counting(&known) {
				out.Groups = append(out.Groups, g.Name)
			}
		}
	}
	return ok(out)
}

type quotaQuery struct {
	User string `query:"user" maxLength:"256" doc:"Login name, user id, token:NAME or cert:NAME. Default: the caller."`
}

type tokensQuery struct{ Page }

func (s *server) tokens(_ context.Context, in *tokensQuery) (*listed[api.Tokens], error) {
	page, more, err := cut(&in.Page, tokensList, in.most(), s.Desk.ListTokens().Tokens,
		func(t api.Token) string { return t.Name }, strings.Compare)
	if err != nil {
		return nil, err
	}
	return answerPage(&in.Page, more, api.Tokens{Tokens: page, More: more})
}

func (s *server) createToken(ctx context.Context, in *body[api.TokenRequest]) (*answer[api.NewToken], error) {
	return answered(s.Desk.CreateToken(askerOf(ctx), in.Body))
}

type tokenNamed struct {
	Name string `path:"name" maxLength:"128" doc:"Name of the token."`
}

func (s *server) revokeToken(ctx context.Context, in *tokenNamed) (*answer[api.Token], error) {
	return answered(s.Desk.RevokeToken(askerOf(ctx), in.Name))
}
