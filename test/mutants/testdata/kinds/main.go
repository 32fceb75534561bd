// Command kinds prints what each of these functions returns. Behind each stands what it
// returns with each of its mutants, the outer ones first.
package main

import "fmt"

type size int16

const fixed = 3 + 4

var (
	two, three = size(2), size(3)
	half       = 0.5
	yes, no    = true, false
)

var all = []func() any{
	func() any { return two < two },               // negation: true; boundary: true
	func() any { return half <= .5 },              // negation: false; boundary: false
	func() any { return "b" > fmt.Sprint("b") },   // negation: true; boundary: true
	func() any { return 3 >= three },              // negation: false; boundary: false
	func() any { return any(two) == nil },         // negation: true
	func() any { return two != three },            // negation: false
	func() any { return three + 1 },               // arithmetic: 2
	func() any { return 1.5 - half },              // arithmetic: 2
	func() any { return fixed * two },             // arithmetic: 3
	func() any { return half / 2 },                // arithmetic: 1
	func() any { return 7 % two },                 // arithmetic: 14
	func() any { return fmt.Sprint("a") + "b" },   //
	func() any { return -half },                   // minus: 0.5
	func() any { return !yes },                    // not: true
	func() any { return !(two == three) },         // not: false; negation: false
	func() any { return yes && no },               // logic: true
	func() any { return no && no },                // logic: false
	func() any { return yes || yes },              // logic: true
	func() any { return no || yes },               // logic: false
	func() any { return yes || panics() },         // logic: panic
	func() any { return no && panics() },          // logic: panic
	func() any { x := two; x++; return x },        // step: 1
	func() any { x := uint8(2); x--; return x },   // step: 3
	func() any { x := half; x += 2; return x },    // step: -1.5
	func() any { x := two; x -= 2; return x },     // step: 4
	func() any { x := two; x = 3; return x },      // statement: 2
	func() any { x := yes; set(&x); return x },    // statement: true
	func() any { x := yes; _ = x; return x },      //
	func() any { return size(-three) },            // minus: 3
	func() any { return two+three-1 == 4 && !no }, // logic: true; negation: false; arithmetic: false; arithmetic: false; not: false
}

func set(p *bool) { *p = false }

func panics() bool { panic("panic") }

func main() {
	for _, f := range all {
		func() {
			defer func() {
				if wrong := recover(); wrong != nil {
					fmt.Println(wrong)
				}
			}()
			fmt.Println(f())
		}()
	}
}
