// Package lab has no code of its own. The packages below it are the laboratory, which only tests, benchmarks and the
// demo on servers import: testserver starts the services, harness runs the conformance suite on them, storetest has
// what the tests of several stores share, broken is the store in memory with one mistake at a time, mutants makes
// mistakes in a package's source, and kubernetes stands in for an API server. Two have tests alone: simulation runs
// random schedules with faults in virtual time, and bench measures.
package lab
