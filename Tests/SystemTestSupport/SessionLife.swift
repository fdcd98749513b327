import Foundation
import TestSupport

/// A user's session in the built program over a long time, in front of the emulator. A `TestClock` passes the time.
final class SessionLife {
    /// What a login or a refresh has set.
    struct Renewal {
        /// Its number.
        let generation: Int
        /// When it was logged, in seconds since 1970.
        let at: Double
        /// When the next refresh is due, in seconds since 1970.
        let dueAt: Double
    }

    let clock: TestClock
    let emulator: EmulatorProcess
    let lanyard: LanyardProcess
    /// Life of an access token in seconds.
    let tokenSeconds: Double
    /// The requests: when each was made, in seconds since 1970, and the id of the token that the emulator got.
    private var requests: [(at: Double, token: String)] = []
    private static let renewals = ["session.login.succeeded", "session.refresh.succeeded"]

    /// Starts both programs. When it returns the user is logged in and the clock stands.
    ///
    /// - Parameters:
    ///   - login: in YAML; nil: the password. Its file is read every 2 s.
    ///   - refreshTokens: life of refresh tokens, such as `20d`; nil: 60 days.
    init(tokenSeconds: Int, login: String? = nil, refreshTokens: String? = nil) async throws {
        self.tokenSeconds = Double(tokenSeconds)
        clock = try TestClock()
        emulator = try await EmulatorProcess.start(
            tokens: "\(tokenSeconds)s", under: clock,
            arguments: refreshTokens.map { ["--refresh-token-lifetime", $0] } ?? [])
        lanyard = try await LanyardProcess.start(emulator, login: login, under: clock)
        try await lanyard.untilReady()
        clock.stop()
    }

    /// One request, which must succeed.
    func request() async throws {
        let response = try await lanyard.get("/protected/")
        guard response.status == 200, let token = try response.json["token_id"].string else {
            throw TestFailure("\(response.status) at \(clock.now): \(response.bodyText)\n\(lanyard.process.log)")
        }
        requests.append((clock.now, token))
    }

    /// How many requests there were.
    var requestCount: Int { requests.count }

    /// Requests whose token had ended, by what the emulator says of its tokens, and requests that it refused; in words.
    func expiredUses() async throws -> [String] {
        let issued = try await emulator.issued().map { ($0["id"].string ?? "", $0["expires_at"].double ?? 0) }
        let ends = Dictionary(issued) { $1 }
        let refused = try await emulator.control("GET", "/counts")["protected"]["refused"]
        let expired = requests.filter { ends[$0.token] ?? 0 <= $0.at }
        return expired.map { "\($0.token) at \($0.at)" } + refused.object.keys
    }

    /// The logins and refreshes so far, in order.
    var renewals: [Renewal] { lanyard.process.lines.compactMap(Self.renewal) }

    /// The first one after `generation`. Passes the time that it needs.
    ///
    /// - Parameter limit: of this time.
    func renewal(after generation: Int, atMost limit: Duration) async throws -> Renewal {
        var found: Renewal?
        try await clock.pass(until: "number \(generation) is renewed", atMost: limit) {
            let line = lanyard.process.lines.last { Self.renewals.contains($0.event ?? "") }
            found = line.flatMap(Self.renewal)
            return found.map { $0.generation > generation } ?? false
        }
        return found!
    }

    /// How many log lines have this event.
    func count(of event: String) -> Int { lanyard.process.lines.count { $0.event == event } }

    private static func renewal(_ line: LogLine) -> Renewal? {
        guard let event = line.event, renewals.contains(event), let generation = line.json["generation"].int,
            let at = line.json["time"].string.flatMap(seconds),
            let dueAt = line.json["next_at"].string.flatMap(seconds)
        else { return nil }
        return Renewal(generation: generation, at: at, dueAt: dueAt)
    }

    /// Of a log line's time, in seconds since 1970.
    private static func seconds(_ text: String) -> Double? {
        (try? Date(text, strategy: .iso8601.year().month().day().time(includingFractionalSeconds: true)))?
            .timeIntervalSince1970
    }
}
