package promapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// The parameters of the routes.
var (
	expression    = parameter("query", longExpression, "An expression in PromQL, at most 10,000 bytes.", true)
	at            = parameter("time", longNumber, "The moment: seconds since 1970, or RFC 3339. Without it: now.", false)
	start         = parameter("start", longNumber, "The first moment: seconds since 1970, or RFC 3339.", false)
	end           = parameter("end", longNumber, "The last moment: seconds since 1970, or RFC 3339.", false)
	step          = parameter("step", longNumber, "The time from one point to the next: seconds, or a duration such as 15s.", true)
	limit         = parameter("limit", longNumber, "The most entries of the answer. Without it, or with 0: all.", false)
	timeout       = parameter("timeout", longNumber, "How long the answer may take, if that is less than the daemon allows: seconds, or a duration such as 5s.", false)
	lookback      = parameter("lookback_delta", longNumber, "How old the newest sample of a series may be: seconds, or a duration. Without it: 5m.", false)
	match         = parameter("match[]", longExpression, "A selector of series, such as gpu_power_usage_watts. It may be given several times.", false)
	metric        = parameter("metric", longName, "The name of one metric. Without it: all.", false)
	perMetric     = parameter("limit_per_metric", longNumber, "The most entries for each metric. berth has one.", false)
	kind          = parameter("type", longNumber, "alert or record. Without it: both.", false)
	ruleName      = parameter("rule_name[]", longName, "The name of a rule. It may be given several times.", false)
	ruleGroup     = parameter("rule_group[]", longName, "The name of a group. It may be given several times.", false)
	file          = parameter("file[]", longName, "The file of a group. It may be given several times.", false)
	excludeAlerts = parameter("exclude_alerts", longNumber, "true: without the alerts of the rules.", false)
	labelName     = &huma.Param{Name: "name", In: "path", Description: "The name of a label.", Required: true, Schema: text(longName, "")}
)

// The longest values of parameters, in bytes.
const (
	longExpression = 10_000
	longName       = 4096
	longNumber     = 64 // also for times
)

func parameter(name string, longest int, description string, needed bool) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: description, Required: needed, Schema: text(longest, "")}
}

func text(longest int, description string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, MaxLength: &longest, Description: description}
}

// required returns a parameter that a route needs.
func required(p *huma.Param) *huma.Param {
	needed := *p
	needed.Required = true
	return &needed
}

// operation describes a route. A form has the same parameters as an address.
func operation(method, path, id, summary, description string, parameters []*huma.Param) *huma.Operation {
	op := &huma.Operation{
		OperationID: id, Method: method, Path: path, Tags: []string{"queries"}, Summary: summary, Description: description,
		Responses: map[string]*huma.Response{},
	}
	for status, why := range map[string]string{
		"400": "A parameter is missing or wrong, or the query is beyond a limit that can be seen before it is answered.",
		"404": "The past is off.",
		"422": "The query cannot be answered with what is there, or is beyond a limit.",
		"503": "The answer took too long.",
	} {
		op.Responses[status] = &huma.Response{Description: why, Content: map[string]*huma.MediaType{"application/json": {Schema: refusal}}}
	}
	if method == http.MethodGet {
		op.Parameters = parameters
		return op
	}
	op.OperationID += "-form"
	form := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}}
	for _, p := range parameters {
		form.Properties[p.Name] = text(*p.Schema.MaxLength, p.Description)
		if p.Required {
			form.Required = append(form.Required, p.Name)
		}
	}
	op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/x-www-form-urlencoded": {Schema: form}}}
	return op
}

// refusal is the form of errors.
var refusal = &huma.Schema{Type: huma.TypeObject, Required: []string{"status", "errorType", "error"}, Properties: map[string]*huma.Schema{
	"status":    {Type: huma.TypeString, Enum: []any{"error"}},
	"errorType": {Type: huma.TypeString},
	"error":     {Type: huma.TypeString},
	"code":      {Type: huma.TypeString, Description: "past_off, where the past is off."},
}}
