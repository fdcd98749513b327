import Foundation
import Glibc
import TestSupport

/// Kills the program at random moments of what it does, starts it again on the same store, and compares what it is then with what it was
/// and with what the identity service saw.
final class CrashDriver {
    /// Logged in by the admin API only: nothing in the configuration can log it in again.
    private static let carol = Device.User(name: "carol")

    private let emulator: EmulatorProcess
    private let device: Device
    private let rotation: String
    private let seed: UInt64
    private var random: SeededGenerator
    private var model = CrashModel(users: ["alice", "bob", "carol"], active: "carol")
    /// What allows a login at the service that arrives in this time (seconds since 1970).
    private struct Permission {
        let cause: String
        let from: Double
        var until = Double.infinity
    }

    /// The emulator may have read a call of a process that has ended, and note its arrival up to this many seconds after that end.
    private static let latestArrival = 0.5
    /// By account.
    private var allowedLogins: [String: [Permission]] = [:]
    /// Accounts with a refresh that a start found open, until the service has seen what follows: its repetition, or the login in its place.
    /// Between the two writes that drop the refresh token and announce that login the store has no open intent. A process that ends there
    /// leaves the login to a later one, whose start finds nothing.
    private var unsettledRefreshes: Set<String> = []
    /// Users whose session may end while this process runs, because its start found a refresh that may not be repeated for ever.
    private var mayEnd: Set<String> = []
    private var openRefreshes = 0
    /// What happened how often, for the end.
    private(set) var sums: [String: Int] = [:]
    private var story: [String] = []
    /// When the running process was started, in seconds since 1970.
    private var startedAt = 0.0
    /// The latest call of the service's journal that was looked at.
    private var lastCall = 0
    /// By session and number, as the journal told them last.
    private var logouts: [String: [Int: JSON]] = [:]
    /// Repeats within the grace time, by session and token.
    private var repeats: [String: Int] = [:]

    init(rotation: String, seed: UInt64) async throws {
        emulator = try await EmulatorProcess.start(
            tokens: EmulatorProcess.life(seconds: 3), arguments: ["--rotation", rotation])
        try await emulator.add(Self.carol.email, password: Self.carol.password)
        device = try await Device.make(emulator, rotation: rotation)
        self.rotation = rotation
        self.seed = seed
        random = SeededGenerator(seed)
    }

    /// - Throws: `TestFailure` that names the seed and tells the last rounds.
    func run(kills: Int) async throws {
        do {
            // Configured users log in by themselves at the very first start, which finds nothing.
            for user in [Device.alice, Device.bob] { allow(user.email, "first start") }
            var running = try await device.start()
            try await running.untilReady()
            try await logIn(Self.carol, running)
            for round in 1...kills {
                try await disturb()
                try await interrupt(running, round)
                try await compareWithService()
                startedAt = Date().timeIntervalSince1970
                endPermissions()
                running = try await device.start()
                try await examine(running, round)
            }
            guard try await running.process.terminate() == .code(143) else { throw TestFailure("SIGTERM") }
            try await compareWithService()
        } catch {
            throw TestFailure(
                "seed \(seed), rotation \(rotation): \(error)\n\(story.suffix(12).joined(separator: "\n"))")
        }
    }

    private func logIn(_ user: Device.User, _ running: DeviceProcess) async throws {
        allow(user.email, "asked for")
        let known = try await running.admin.status()[user.name] != nil
        let credential = #"{"email_password":{"email":"\#(user.email)","password":"\#(user.password)"}}"#
        if known {
            try await running.admin.call("POST", "/v1/users/\(user.name)/login", #"{"credential":\#(credential)}"#)
        } else {
            try await running.admin.call(
                "POST", "/v1/users", #"{"name":"\#(user.name)","identity":"demo","credential":\#(credential)}"#)
        }
        model.take(.login(user.name), isConfirmed: true)
    }

    private func allow(_ account: String, _ cause: String) {
        allowedLogins[account, default: []].append(Permission(cause: cause, from: Date().timeIntervalSince1970))
    }

    /// Nothing runs: what was asked for and never sent excuses no later process's login.
    private func endPermissions() {
        allowedLogins = allowedLogins.mapValues { permissions in
            permissions.filter { startedAt < $0.until }.map { permission in
                var permission = permission
                permission.until = min(permission.until, startedAt + Self.latestArrival)
                return permission
            }
        }
    }

    // MARK: Before the crash

    /// Other lifetimes, and a service that is slower or faster before and after the effect of a call.
    private func disturb() async throws {
        let life = Int.random(in: 2...4, using: &random) * Sanitizer.stretch
        try await emulator.control("PUT", "/settings", #"{"access_token_seconds":\#(life)}"#)
        for route in ["login", "refresh", "logout"] {
            for before in [true, false] {
                let delay = Bool.random(using: &random) ? 0 : Int.random(in: 0...25, using: &random)
                try await emulator.control(
                    "POST", "/delays", #"{"route":"\#(route)","milliseconds":\#(delay),"before":\#(before)}"#)
            }
        }
    }

    private func interrupt(_ running: DeviceProcess, _ round: Int) async throws {
        let operation = model.operation(&random)
        let microseconds =
            operation == .wait
            ? Int.random(in: 0...3_000_000 * Sanitizer.stretch, using: &random)
            : Int.random(in: 0...[5_000, 40_000, 40_000, 200_000].randomElement(using: &random)!, using: &random)
        if case .login(let name) = operation { allow("\(name)@example.com", "asked for") }
        let call = Self.begin(operation, running.admin)
        try await Task.sleep(for: .microseconds(microseconds))
        running.process.signal(SIGKILL)
        let status = await call.value
        try await running.process.waitForExit()
        // What was sent before the end still has its effect.
        try await emulator.untilClosed()
        let isConfirmed = status.map { 200..<300 ~= $0 } ?? false
        model.take(operation, isConfirmed: isConfirmed)
        // No login follows a logout, but one may have been in progress.
        if case .logout(let name) = operation, isConfirmed, unsettledRefreshes.remove("\(name)@example.com") != nil {
            allowedLogins["\(name)@example.com", default: []].append(Permission(cause: "open intent", from: 0))
        }
        sums[operation.kind + (status == nil && operation != .wait ? " cut off" : ""), default: 0] += 1
        story.append(
            "round \(round): \(operation), killed after \(microseconds) µs, answered \(status.map(String.init) ?? "nothing")"
        )
    }

    /// Its value: the response's status; nil: none came.
    private static func begin(_ operation: CrashModel.Operation, _ admin: AdminClient) -> Task<Int?, Never> {
        Task { try? await ask(operation, of: admin) }
    }

    private static func ask(_ operation: CrashModel.Operation, of admin: AdminClient) async throws -> Int? {
        switch operation {
        case .wait: return nil
        case .activate(let name): return try await admin.ask("POST", "/v1/users/\(name)/activate").status
        case .logout(let name): return try await admin.ask("POST", "/v1/users/\(name)/logout").status
        case .refresh(let name): return try await admin.ask("POST", "/v1/users/\(name)/refresh").status
        case .login(let name):
            let body = AdminClient.password("\(name)@example.com", "\(name)-secret-word")
            return try await admin.ask("POST", "/v1/users/\(name)/login", body).status
        }
    }

    // MARK: After it

    private func examine(_ running: DeviceProcess, _ round: Int) async throws {
        // What the process before found may have come to its end just before its own.
        let before = mayEnd
        mayEnd = note(running)
        let mayEnd = mayEnd.union(before)
        var status = try await running.admin.status()
        do {
            try await eventually("every user is where they were") {
                status = try await running.admin.status()
                return model.contradiction(status, mayEnd: mayEnd) == nil
                    && !status.users.contains { $0.session == "logging_in" }
            }
        } catch {
            let contradiction = model.contradiction(status, mayEnd: mayEnd) ?? "a login is still in progress"
            throw TestFailure("round \(round): \(contradiction)\n\(status.users)\n\(running.process.log)")
        }
        status = try await serviceAsStatus(running, round)
        // A session that had to end may have done so since; no other has.
        if let contradiction = model.contradiction(status, mayEnd: mayEnd) {
            throw TestFailure("round \(round), later: \(contradiction)\n\(status.users)\n\(running.process.log)")
        }
        model.observe(status)
        if let carol = status["carol"], !carol.isIn, mayEnd.contains("carol") {
            try await logIn(Self.carol, running)
        }
        try await compareWithService()
    }

    /// Reads what the start found in the store.
    ///
    /// - Returns: users without a credential whose refresh had an unknown outcome that no repetition may settle.
    private func note(_ running: DeviceProcess) -> Set<String> {
        // One intent may have more than one line.
        var intents: [String: JSON] = [:]
        for line in running.openIntents { intents[line["user"].string ?? ""] = line }
        story.append("  starts with \(intents.map { "\($0.key): \($0.value["kind"].string ?? "")" })")
        var mayEnd: Set<String> = []
        for (name, intent) in intents {
            sums["open " + (intent["kind"].string ?? "?"), default: 0] += 1
            guard intent["kind"].string == "refresh" else {
                // It was found before this process made its first call.
                allowedLogins["\(name)@example.com", default: []].append(Permission(cause: "open intent", from: 0))
                continue
            }
            openRefreshes += 1
            // Without a credential nothing but an operator logs in.
            if name != Self.carol.name { unsettledRefreshes.insert("\(name)@example.com") }
            if name == "carol", rotation != "none" { mayEnd.insert(name) }
        }
        return mayEnd
    }

    /// A user that is logged in is served with its own account's token; no other user is.
    ///
    /// - Returns: the status that this was seen with.
    private func serviceAsStatus(_ running: DeviceProcess, _ round: Int) async throws -> AdminStatus {
        var (status, fault) = (try await running.admin.status(), "")
        do {
            try await eventually("every user is served as the status says") {
                status = try await running.admin.status()
                fault = try await misserved(status, running) ?? ""
                return fault.isEmpty
            }
        } catch {
            throw TestFailure("round \(round): \(error): \(fault)\n\(running.process.log)")
        }
        return status
    }

    /// A path that is served for another than the status says.
    private func misserved(_ status: AdminStatus, _ running: DeviceProcess) async throws -> String? {
        var paths = status.users.filter { $0.name != "carol" }.map {
            ("/as/\($0.name)", $0) as (String, AdminStatus.User?)
        }
        paths.append(("/", status.active.flatMap { status[$0] }))
        for (path, user) in paths {
            let account = user?.isIn == true ? user?.accountID : nil
            let served = try await running.account(at: path)
            guard served == account else {
                return "\(path) is served for \(served ?? "nobody"), not \(account ?? "nobody")"
            }
        }
        return nil
    }

    /// The service's side: no old refresh token came but for rule 9's one retry, and each login has a cause.
    private func compareWithService() async throws {
        let total = try await emulator.control("GET", "/ledger")["total"]
        sums["refreshes"] = total["refreshes"].int ?? 0
        sums["logins"] = total["logins"]["local-userpass"].int ?? 0
        sums["repeats"] = total["repeats_within_grace"].int ?? 0
        guard total["repeats_after_grace"].int == 0 else { throw TestFailure("an old refresh token came too late") }
        guard sums["repeats"] ?? 0 <= openRefreshes else {
            throw TestFailure("\(sums["repeats"] ?? 0) repeats on \(openRefreshes) open intents")
        }
        try await readJournal()
    }

    /// Each login had been asked for when it came, or follows an intent that a start found open; each excuses one.
    private func judge(login call: JSON) async throws {
        let account = call["account"].string ?? "", time = call["arrived_at"].double ?? 0
        if unsettledRefreshes.remove(account) != nil { return }
        let place = allowedLogins[account]?.firstIndex { $0.from <= time && time < $0.until }
        guard let place else {
            let history = try await history { $0["account"].string == account }
            let allowed = allowedLogins[account] ?? []
            throw TestFailure(
                "a login without a cause: \(call); allowed: \(allowed); since \(startedAt), of \(history)")
        }
        allowedLogins[account]?.remove(at: place)
    }

    /// A refresh of this process settles what its start found open; a late one of the process before does not.
    private func settle(by refresh: JSON) {
        guard refresh["arrived_at"].double ?? 0 > startedAt + Self.latestArrival else { return }
        unsettledRefreshes.remove(refresh["account"].string ?? "")
    }

    /// Whether the service took a logout before a refresh that was in progress at the same time: an operator's logout does not wait for it.
    ///
    /// On a busy machine the refresh that Lanyard sends first may arrive some time after the logout's response. Each has a connection of
    /// its own. A refresh of another process than the logout's has no such excuse.
    private func isOvertaken(_ refresh: JSON) -> Bool {
        logouts[refresh["session_id"].string ?? "", default: [:]].values.contains { logout in
            // Not answered yet: still in progress.
            guard let answered = logout["answered_at"].double else { return true }
            let slack = answered > startedAt ? 1.0 : 0
            return answered + slack > refresh["arrived_at"].double ?? .infinity
        }
    }

    /// The latest calls of the service's journal that match, each with when it arrived and was answered.
    private func history(where matches: (JSON) -> Bool) async throws -> String {
        try await emulator.control("GET", "/journal").array.filter(matches).suffix(12).map { call in
            let times = [call["arrived_at"], call["answered_at"]].map { $0.double ?? 0 }
            return "\(call["route"].string ?? "") \(call["number"].int ?? 0) \(call["effect"].string ?? "") \(times)"
        }.joined(separator: "; ")
    }

    /// A logout may come with an old token, when the newest is unknown; a refresh may not.
    private func readJournal() async throws {
        let calls = try await emulator.control("GET", "/journal?after=\(lastCall)").array
        for call in calls where call["route"].string == "logout" {
            logouts[call["session_id"].string ?? "", default: [:]][call["number"].int ?? 0] = call
        }
        for call in calls {
            // What is not answered yet is looked at the next time, with all that came after it.
            guard call["answered_at"].double != nil else { break }
            lastCall = call["number"].int ?? lastCall
            if call["effect"].string == "login" { try await judge(login: call) }
            guard call["route"].string == "refresh" else { continue }
            switch call["effect"].string {
            case "refreshed", "rotated": settle(by: call)
            case "family_killed": throw TestFailure("an old refresh token came where that kills the session: \(call)")
            case "session_dead" where !isOvertaken(call):
                let session = call["session_id"].string
                let history = try await history { $0["session_id"].string == session }
                throw TestFailure(
                    "a refresh of a session that had ended since \(startedAt): \(call), of \(history)"
                )
            case "repeated_within_grace":
                let token = "\(call["session_id"].string ?? "") \(call["refresh_token_serial"].int ?? 0)"
                repeats[token, default: 0] += 1
                guard repeats[token] == 1 else { throw TestFailure("repeated twice: \(call)") }
                settle(by: call)
            default: break
            }
        }
    }
}
