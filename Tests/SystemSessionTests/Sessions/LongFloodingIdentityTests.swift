import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// A minute beside an identity service that floods, for each way, and a minute without one.
@Suite(.serialized) struct LongFloodingIdentityTests {
    /// Floods over plain http and over TLS; nil: the control, without a service that floods.
    private static let cases: [(flood: FloodingService.Flood?, isTLS: Bool)] =
        [(nil, false)]
        + FloodingService.Flood.allCases.flatMap { flood in
            (flood.isOfTLS ? [true] : [false, true]).map { (flood, $0) }
        }

    @Test("no request and no refresh of the other identity's user fails", arguments: cases)
    func beside(_ flood: FloodingService.Flood?, _ isTLS: Bool) async throws {
        let seconds = LongSize.of(60, least: 1)
        let bench = try await FloodBench.start(flood, isTLS: isTLS)
        let end = ContinuousClock.now + .seconds(seconds)
        let (failures, looks, ended) = try await withThrowingTaskGroup(
            of: (failures: [String], looks: Int, ended: Int).self
        ) {
            group in
            for _ in 0..<3 {
                group.addTask {
                    var (failures, looks): ([String], Int) = ([], 0)
                    while ContinuousClock.now < end {
                        failures += try await bench.look()
                        looks += 1
                    }
                    return (failures, looks, 0)
                }
            }
            if flood != nil {
                group.addTask {
                    var ended = 0
                    while ContinuousClock.now < end {
                        if try await bench.provoke().status == 503 { ended += 1 }
                    }
                    return ([], 0, ended)
                }
            }
            return try await group.reduce(into: ([String](), 0, 0)) { sum, part in
                sum = (sum.0 + part.failures, sum.1 + part.looks, sum.2 + part.ended)
            }
        }
        #expect(failures.isEmpty, "\(failures.count) of \(looks): \(failures.prefix(3))")
        #expect(looks > 0 && (flood == nil || ended > 0), "\(looks) looks, \(ended) floods")
    }
}
