import TestSupport
import Testing

/// A random walk of reloads and operators' calls through the built program. A seed repeats its steps.
final class ReloadedWalk {
    private let bench: ReloadedUsers
    let lanyard: DeviceProcess
    private var dice: SeededGenerator
    private var identities = ["one", "two"]
    private var users: [(name: String, identity: String, hasLogin: Bool)] = [("alice", "one", true)]
    private var active: String?
    /// What has been done.
    private(set) var story: [String] = []

    init(seed: UInt64) async throws {
        dice = SeededGenerator(seed)
        bench = try await ReloadedUsers()
        let all = [bench.identity("one", at: bench.first), bench.identity("two", at: bench.second)]
        try bench.configure([bench.user("alice", identity: "one")], identities: all)
        lanyard = try await bench.start()
        try await settle()
    }

    /// Walks, and expects after each step that a refused one has changed nothing, and after each `restartsEach` that a
    /// restart makes the same users.
    static func run(seed: UInt64, steps: Int, restartsEach: Int) async throws {
        let walk = try await ReloadedWalk(seed: seed)
        for step in 1...steps {
            let before = try await walk.shownUsers()
            let isDone = try await walk.step()
            let after = try await walk.shownUsers()
            let story = "seed \(seed), step \(step)\n\(walk.story.joined(separator: "\n"))"
            if !isDone { #expect(after == before, "\(story)") }
            guard step % restartsEach == 0 else { continue }
            let restarted = try await walk.shownUsersAfterRestart()
            #expect(after.sorted() == restarted.sorted(), "\(story)")
        }
        #expect(try await walk.lanyard.process.terminate() == .code(143))
    }

    /// A reload or a call, and whether it was carried out.
    func step() async throws -> Bool {
        let isDone = dice.chance() < 0.5 ? try await reload() : try await call()
        try await settle()
        return isDone
    }

    private func settle() async throws {
        try await eventually("no user is in a transition") {
            try await lanyard.admin.status().users.allSatisfy { !["logging_in", "refreshing"].contains($0.session) }
        }
    }

    private func reload() async throws -> Bool {
        let former = (identities, users, active)
        switch Int.random(in: 0..<6, using: &dice) {
        case 0:
            identities = identities.count == 2 ? [["one", "two"].randomElement(using: &dice)!] : ["one", "two"]
            users.removeAll { !identities.contains($0.identity) }
        case 1: active = dice.chance() < 0.3 ? nil : ReloadedUsers.names.randomElement(using: &dice)
        case 2:
            guard let place = users.indices.randomElement(using: &dice) else { break }
            users[place].identity = identities.randomElement(using: &dice)!
        default:
            let name = ReloadedUsers.names.randomElement(using: &dice)!
            if let place = users.firstIndex(where: { $0.name == name }) {
                users.remove(at: place)
            } else {
                users.append((name, identities.randomElement(using: &dice)!, dice.chance() < 0.7))
            }
        }
        let emulators = ["one": bench.first, "two": bench.second]
        try bench.configure(
            users.map { bench.user($0.name, identity: $0.identity, password: $0.hasLogin ? "" : nil) },
            identities: identities.map { bench.identity($0, at: emulators[$0]!) },
            rest: active.map { "active_user: \($0)" } ?? "")
        let response = try await ReloadedUsers.reload(lanyard)
        story.append("reload \(identities) \(users) active \(active ?? "-"): \(response.status)")
        if response.status != 200 { (identities, users, active) = former }
        return response.status == 200
    }

    private func call() async throws -> Bool {
        let name = ReloadedUsers.names.randomElement(using: &dice)!
        let password = dice.chance() < 0.6 ? ReloadedUsers.password(name) : "wrong"
        let login = #"{"email_password":{"email":"\#(name)@example.com","password":"\#(password)"}}"#
        let (method, path, body): (String, String, String?) =
            switch Int.random(in: 0..<7, using: &dice) {
            case 0, 1, 2:
                (
                    "POST", "",
                    #"{"name":"\#(name)","identity":"\#(["one", "two"].randomElement(using: &dice)!)","#
                        + #""activate":\#(dice.chance() < 0.5),"credential":\#(login)}"#
                )
            case 3: ("POST", "/\(name)/login", #"{"credential":\#(login)}"#)
            case 4: ("POST", "/\(name)/activate", nil)
            // A restart brings a configured user back (architecture-control.md 7.9).
            case 5 where !users.contains { $0.name == name }: ("DELETE", "/\(name)", nil)
            default: ("POST", "/\(name)/logout", nil)
            }
        let response = try await lanyard.admin.ask(method, "/v1/users" + path, body)
        story.append("\(method) \(path) \(body ?? ""): \(response.status)")
        return response.status < 300
    }

    /// What an operator sees.
    func shownUsers() async throws -> [String] { try await ReloadedUsers.shownUsers(lanyard) }

    /// What a restart makes of the same file and store.
    func shownUsersAfterRestart() async throws -> [String] { try await bench.shownUsersAfterRestart() }
}
