package config_test

import (
	"testing"

	"github.com/berth-gpu/berth/internal/config"
)

func TestParseCurve(t *testing.T) {
	curve, err := config.ParseCurve("50:30, 70:60,85:100")
	if err != nil || len(curve) != 3 || curve[1] != (config.CurvePoint{At: 70, Speed: 60}) {
		t.Errorf("curve %v, %v", curve, err)
	}
	for _, bad := range []string{"", "50", "50:", ":30", "50:30;70:60", "70:60,50:80", "50:60,70:30", "50:101", "-1:20", "NaN:20", "50:NaN", "130:50", "50:30,", "50:30,50:40"} {
		if curve, err := config.ParseCurve(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, curve)
		}
	}
}
