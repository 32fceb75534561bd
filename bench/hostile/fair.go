package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

type fairness struct {
	rounds int
	length time.Duration
}

func measureFairness(context.Context, options) error { return errors.New("not yet") }

func loadEverything(context.Context, json.RawMessage, func(any)) error { return nil }
func measureHonest(context.Context, json.RawMessage, func(any)) error  { return nil }
