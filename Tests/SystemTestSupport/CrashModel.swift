import TestSupport

/// What must hold after a crash, as far as the calls before it tell: who is logged in, and who is active.
struct CrashModel {
    enum Standing { case loggedIn, loggedOut, unknown }

    /// By name.
    private(set) var standings: [String: Standing]
    /// Who may be active.
    private(set) var active: Set<String?>

    /// What an operator asks for.
    enum Operation: Hashable, Sendable, CustomStringConvertible {
        case login(String), activate(String), logout(String), refresh(String)
        /// Nothing: whatever happens by itself.
        case wait

        var description: String {
            switch self {
            case .login(let name): "login \(name)"
            case .activate(let name): "activate \(name)"
            case .logout(let name): "logout \(name)"
            case .refresh(let name): "refresh \(name)"
            case .wait: "wait"
            }
        }

        /// A word for the sums.
        var kind: String { description.split(separator: " ").first.map(String.init) ?? "" }
    }

    init(users: [String], active: String) {
        standings = Dictionary(uniqueKeysWithValues: users.map { ($0, .loggedIn) })
        self.active = [active]
    }

    /// What the running program says stands until the next operation.
    mutating func observe(_ status: AdminStatus) {
        active = [status.active]
        for user in status.users { standings[user.name] = user.isIn ? .loggedIn : .loggedOut }
    }

    /// - Parameter isAnswered: with success; without a response either may hold.
    mutating func take(_ operation: Operation, isConfirmed: Bool) {
        switch operation {
        case .login(let name):
            if isConfirmed {
                standings[name] = .loggedIn
            } else if standings[name] != .loggedIn {
                standings[name] = .unknown
            }
            allow(name, isConfirmed)
        case .activate(let name): allow(name, isConfirmed)
        case .logout(let name):
            standings[name] = isConfirmed ? .loggedOut : .unknown
            if active.contains(name) { allow(nil, isConfirmed) }
        case .refresh, .wait: break
        }
    }

    private mutating func allow(_ name: String?, _ isCertain: Bool) {
        active = isCertain ? [name] : active.union([name])
    }

    /// What contradicts it in what a program says after its start; nil: nothing.
    ///
    /// - Parameter mayEnd: users whose sessions may have ended for a reason that the store told.
    func contradiction(_ status: AdminStatus, mayEnd: Set<String>) -> String? {
        for (name, standing) in standings.sorted(by: { $0.key < $1.key }) {
            guard let user = status[name] else { return "\(name) is not known any more" }
            switch standing {
            case .loggedIn where !user.isIn && !mayEnd.contains(name): return "was logged in: \(user)"
            case .loggedOut where user.isIn: return "was logged out: \(user)"
            default: break
            }
        }
        return active.contains(status.active)
            ? nil : "active is \(status.active ?? "nobody"), not one of \(active.map { $0 ?? "nobody" })"
    }

    /// A random operation that makes sense now.
    func operation(_ random: inout SeededGenerator) -> Operation {
        let names = standings.keys.sorted()
        let present = names.filter { standings[$0] == .loggedIn }
        let absent = names.filter { standings[$0] == .loggedOut }
        switch Int.random(in: 0..<100, using: &random) {
        case ..<30:
            if let name = present.randomElement(using: &random) { return .refresh(name) }
        case ..<45: return .wait
        case ..<60:
            if let name = present.randomElement(using: &random) { return .activate(name) }
        case ..<75:
            if present.count > 1, let name = present.randomElement(using: &random) { return .logout(name) }
        default: break
        }
        return .login((absent.isEmpty ? names : absent).randomElement(using: &random) ?? "alice")
    }
}
