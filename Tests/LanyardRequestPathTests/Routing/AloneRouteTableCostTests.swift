import TestSupport
import Testing

@testable import LanyardRequestPath
@testable import LanyardSettings

/// What finding a route costs a request. Alone, since time is measured.
@Suite struct AloneRouteTableCostTests {
    private static func table(_ count: Int, _ shape: (Int, inout RouteSettings) -> Void) -> RouteTable {
        RouteTable(
            (0..<count).map { index in
                var settings = RouteSettings(name: "r\(index)")
                shape(index, &settings)
                return Route(settings, index: index, user: nil)
            })
    }

    /// The time of one decision; the shortest of five runs.
    private static func time(_ table: RouteTable, _ count: Int, host: String) -> Duration {
        let paths = (0..<256).map { Array("/r\($0 * count / 256)/orders/7".utf8) } + [Array("/none/orders/7".utf8)]
        let (method, host) = (Array("GET".utf8), Array(host.utf8))
        var best = Duration.seconds(100)
        for _ in 0..<5 {
            let started = ContinuousClock.now
            for path in paths {
                method.withUnsafeBufferPointer { method in
                    host.withUnsafeBufferPointer { host in
                        path.withUnsafeBufferPointer { _ = table.decide(method: method, host: host, path: $0) }
                    }
                }
            }
            best = min(best, (ContinuousClock.now - started) / paths.count)
        }
        return best
    }

    @Test("a hundred times the routes, hosts or denials cost a request no ten times as much")
    func growth() {
        let shapes: [(name: String, table: (Int) -> RouteTable)] = [
            ("routes by path", { count in Self.table(count) { $1.path = "/r\($0)" } }),
            ("routes by host", { count in Self.table(count) { $1.hosts = ["h\($0).test"] } }),
            (
                "hosts of one route",
                { count in Self.table(1) { $1.hosts = (0..<count).map { "h\($0).test" } } }
            ),
            (
                "denials of one route",
                { count in Self.table(1) { $1.deny = (0..<count).map { .init(path: "/d\($0)") } } }
            ),
        ]
        for shape in shapes {
            let few = Self.time(shape.table(120), 120, host: "h7.test")
            let many = Self.time(shape.table(12_000), 12_000, host: "h7.test")
            let figure = "a decision among 120 and 12,000 \(shape.name): \(few) and \(many)"
            print(figure)
            #expect(many < few * 10, "\(figure)")
        }
    }
}
