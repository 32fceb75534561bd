package amd

var (
	ThrottleReasons = throttleReasons
	DescribeFault   = catalogue.Describe
)
