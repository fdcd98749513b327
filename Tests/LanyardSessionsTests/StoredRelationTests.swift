import Foundation
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

/// What a stored user is to what is known, and what follows.
@Suite struct StoredRelationTests {
    /// What may follow at one moment or another, in the words of docs/design/stored-relations.md.
    private enum Cell: String {
        case proceed, yield, rebase = "repeat"
        case continueBeside = "continue beside"
        case writeNewer = "write ours"
        case keepLogin = "keep the login"
        case endToken = "end the token"

        init(_ resolution: StoredRelation.ReadResolution) {
            self =
                switch resolution {
                case .proceed: .proceed
                case .continueBeside: .continueBeside
                case .writeNewer: .writeNewer
                case .yield: .yield
                }
        }

        init(_ resolution: StoredRelation.RefreshResolution) {
            self =
                switch resolution {
                case .read(let resolution): Cell(resolution)
                case .endToken: .endToken
                }
        }

        init(_ resolution: StoredRelation.ChangeResolution) {
            self =
                switch resolution {
                case .continueBeside: .continueBeside
                case .writeNewer: .writeNewer
                case .rebase: .rebase
                case .yield: .yield
                }
        }

        init(_ resolution: StoredRelation.LoginResolution) {
            self =
                switch resolution {
                case .change(let resolution): Cell(resolution)
                case .keepLogin: .keepLogin
                }
        }
    }

    /// The columns of the tables of docs/design/stored-relations.md.
    private static let moments: [(name: String, cell: @Sendable (StoredRelation.Resolutions) -> Cell)] = [
        ("before a refresh", { Cell($0.beforeRefresh) }), ("before a login", { Cell($0.beforeLogin) }),
        ("before an operator's login", { Cell($0.beforeOperatorLogin) }), ("at rest", { Cell($0.atRest) }),
        ("after a refresh", { Cell($0.afterRefresh) }), ("after a login", { Cell($0.afterLogin) }),
        ("after a login, with an unsaved end", { Cell($0.afterLoginWithUnsavedEnd) }),
        ("at an end", { Cell($0.atEnd) }), ("unsaved session", { Cell($0.ofUnsavedSession) }),
        ("other unsaved change", { Cell($0.ofUnsavedChange) }),
    ]

    /// A row for each relation, a column for each moment in its order.
    private static let table: [StoredRelation: [Cell]] = [
        .foreign: Array(repeating: .continueBeside, count: 10),
        .same: [.proceed, .proceed, .proceed, .proceed, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .sameWithoutRefreshToken: [
            .endToken, .proceed, .proceed, .proceed, .yield, .yield, .keepLogin, .yield, .yield, .yield,
        ],
        .sameDeletion: [.yield, .yield, .proceed, .proceed, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .sameLoggedOut: [.yield, .yield, .proceed, .proceed, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .sameWithoutSession: [
            .proceed, .proceed, .proceed, .proceed, .yield, .yield, .keepLogin, .yield, .yield, .yield,
        ],
        .sameAbsent: [.proceed, .proceed, .proceed, .proceed, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .older: Array(repeating: .writeNewer, count: 10),
        .deletingElsewhere: [.yield, .yield, .yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .deletingOtherSession: [.yield, .yield, .yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .ownFailedWrite: [.yield, .yield, .yield, .yield, .rebase, .rebase, .rebase, .rebase, .yield, .yield],
        .exchangedToken: [.yield, .yield, .yield, .yield, .rebase, .keepLogin, .keepLogin, .rebase, .rebase, .rebase],
        .sameTokens: [.yield, .yield, .yield, .yield, .rebase, .yield, .keepLogin, .yield, .rebase, .yield],
        .absent: [.yield, .yield, .yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .loggedOut: [.yield, .yield, .yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .ended: [.endToken, .yield, .yield, .yield, .yield, .keepLogin, .keepLogin, .yield, .yield, .yield],
        .newer: [.yield, .yield, .yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .otherSession: [.yield, .yield, .yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
    ]

    @Test("each relation at each moment")
    func resolutions() throws {
        for relation in StoredRelation.allCases {
            let row = try #require(Self.table[relation])
            #expect(row.count == Self.moments.count)
            for (moment, expected) in zip(Self.moments, row) {
                #expect(moment.cell(relation.resolutions) == expected, "\(relation) \(moment.name)")
            }
        }
    }

    /// The cells of the table of docs/design/stored-relations.md whose head begins so.
    private static func rows(beginning head: String) throws -> [[String]] {
        let page = URL(filePath: #filePath).deletingLastPathComponent().appending(
            path: "../../docs/design/stored-relations.md")
        let lines = try String(contentsOf: page, encoding: .utf8).split(separator: "\n").map(String.init)
        let first = try #require(lines.firstIndex { $0.hasPrefix(head) })
        return lines[first...].prefix { $0.hasPrefix("|") }.map { line in
            line.dropFirst().dropLast().split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
    }

    @Test("docs/design/stored-relations.md has this table")
    func page() throws {
        let moments = Self.moments.map(\.name)
        let calls = 4
        for (head, columns) in [("| before |", 0..<calls), ("| not taken |", calls..<moments.count)] {
            let rows = try Self.rows(beginning: head)
            #expect(rows[0].dropFirst() == moments[columns])
            let expected = try StoredRelation.allCases.map { relation in
                try [relation.rawValue] + #require(Self.table[relation])[columns].map(\.rawValue)
            }
            #expect(Array(rows.dropFirst(2)) == expected)
        }
    }

    private struct Meaning {
        let state: StoredRelation.StoredState
        var hasKnownSession = false
        var isDeletingElsewhere = false
    }

    /// What the store says of the session, whether it is the one that is known here, and whether another process deletes
    /// its account.
    private static let meanings: [StoredRelation: Meaning] = [
        .foreign: Meaning(state: .foreign), .same: Meaning(state: .session, hasKnownSession: true),
        .sameWithoutRefreshToken: Meaning(state: .session, hasKnownSession: true),
        .sameDeletion: Meaning(state: .loggedOut, hasKnownSession: true, isDeletingElsewhere: true),
        .sameLoggedOut: Meaning(state: .loggedOut), .sameWithoutSession: Meaning(state: .ended),
        .sameAbsent: Meaning(state: .removed), .older: Meaning(state: .session, hasKnownSession: true),
        .deletingElsewhere: Meaning(state: .loggedOut, hasKnownSession: true, isDeletingElsewhere: true),
        .deletingOtherSession: Meaning(state: .loggedOut, isDeletingElsewhere: true),
        .ownFailedWrite: Meaning(state: .session, hasKnownSession: true),
        .exchangedToken: Meaning(state: .session, hasKnownSession: true),
        .sameTokens: Meaning(state: .session, hasKnownSession: true), .absent: Meaning(state: .removed),
        .loggedOut: Meaning(state: .loggedOut), .ended: Meaning(state: .ended),
        .newer: Meaning(state: .session, hasKnownSession: true), .otherSession: Meaning(state: .session),
    ]

    @Test("what each relation says of the session; docs/design/stored-relations.md has it, too")
    func storedStates() throws {
        let rows = try Self.rows(beginning: "| means |")
        var expected: [[String]] = []
        for relation in StoredRelation.allCases {
            let meaning = try #require(Self.meanings[relation])
            #expect(relation.storedState == meaning.state, "\(relation)")
            #expect(relation.hasKnownSession == meaning.hasKnownSession, "\(relation)")
            #expect(relation.isDeletingElsewhere == meaning.isDeletingElsewhere, "\(relation)")
            expected.append([
                relation.rawValue, meaning.state.rawValue, meaning.hasKnownSession ? "yes" : "no",
                meaning.isDeletingElsewhere ? "yes" : "no",
            ])
        }
        #expect(Array(rows.dropFirst(2)) == expected)
    }

    // MARK: The relation

    private static let identity = StoredIdentity("demo", IdentityFingerprint(of: ["here"]))
    private static let elsewhere = StoredIdentity("demo", IdentityFingerprint(of: ["elsewhere"]))

    private static func session(
        _ id: UInt64, _ token: String, refresh: String? = "refresh", issuedAt: Int64 = 1
    ) -> StoredSession {
        StoredSession(
            id: id, access: Tokens.secret(token), refresh: refresh.map { Tokens.secret($0) }, refreshExpiry: nil,
            issuedAt: WallTime(seconds: issuedAt), issuedAtBoot: BootInstant(boot: "", instant: .past),
            lifetime: .seconds(60))
    }

    private static func user(
        _ status: StoredUser.Status, _ generation: Generation, of identity: StoredIdentity = identity
    ) -> StoredUser {
        var user = StoredUser(name: "alice", of: identity)
        user.status = status
        user.generation = generation
        return user
    }

    private static let withoutSession = SessionVersion(session: 0, generation: 5)

    /// Session 7 is known at generation 5 with the token "known".
    private static func relation(
        _ user: StoredUser?, base: SessionVersion = SessionVersion(session: 7, generation: 5),
        failed: StoredRelation.FailedWrite? = nil, exchanged: [String] = [], hasDeletionMark: Bool = false
    ) -> StoredRelation {
        StoredRelation(
            user,
            to: StoredRelation.Known(
                identity: identity, base: base, session: session(7, "known"), failedWrite: failed,
                exchanged: exchanged.map { Tokens.secret($0) }, hasDeletionMark: hasDeletionMark))
    }

    @Test("each relation is told from the others")
    func relations() {
        let failed = StoredRelation.FailedWrite(
            version: SessionVersion(session: 7, generation: 6), issuedAt: WallTime(seconds: 9),
            refresh: Tokens.secret("refresh"))
        let ours = Self.user(.active(Self.session(7, "ours", issuedAt: 9)), 6)
        let found: [StoredRelation] = [
            Self.relation(Self.user(.active(Self.session(7, "known")), 5, of: Self.elsewhere)),
            Self.relation(Self.user(.active(Self.session(7, "known")), 5)),
            Self.relation(Self.user(.active(Self.session(7, "known", refresh: nil)), 5)),
            Self.relation(Self.user(.deleting(Self.session(7, "known")), 5)),
            Self.relation(Self.user(.loggedOut, 5), base: Self.withoutSession),
            Self.relation(Self.user(.none, 5), base: Self.withoutSession),
            Self.relation(nil, base: .absent),
            Self.relation(Self.user(.active(Self.session(7, "old")), 4)),
            Self.relation(Self.user(.deleting(Self.session(7, "theirs")), 6)),
            Self.relation(Self.user(.deleting(Self.session(8, "theirs")), 6)),
            Self.relation(ours, failed: failed),
            Self.relation(Self.user(.active(Self.session(7, "theirs")), 6), exchanged: ["refresh"]),
            Self.relation(Self.user(.active(Self.session(7, "known")), 6)),
            Self.relation(nil),
            Self.relation(Self.user(.loggedOut, 6)),
            Self.relation(Self.user(.none, 5)),
            Self.relation(Self.user(.active(Self.session(7, "theirs")), 6)),
            Self.relation(Self.user(.active(Self.session(8, "theirs")), 3)),
        ]
        #expect(found == StoredRelation.allCases)
    }

    @Test("the first that is true is the relation")
    func order() {
        // A user of another identity is never the known version, and a removed user only if one was known.
        #expect(Self.relation(Self.user(.none, .zero, of: Self.elsewhere), base: .absent) == .foreign)
        // A mark does not move the version. This process's own says nothing.
        #expect(Self.relation(Self.user(.deleting(Self.session(7, "known")), 5), hasDeletionMark: true) == .same)
        // Of a mark that may be this process's own, the session is what counts.
        let marked = Self.user(.deleting(Self.session(7, "theirs")), 6)
        #expect(Self.relation(marked, hasDeletionMark: true) == .newer)
        #expect(
            Self.relation(Self.user(.deleting(Self.session(8, "theirs")), 6), hasDeletionMark: true) == .otherSession)
        // A failed write is recognised by its version and its time, not by one of them.
        let other = StoredRelation.FailedWrite(
            version: SessionVersion(session: 7, generation: 6), issuedAt: WallTime(seconds: 8),
            refresh: Tokens.secret("refresh"))
        #expect(Self.relation(Self.user(.active(Self.session(7, "theirs")), 6), failed: other) == .newer)
        // Nor by both: a fetch changes the refresh token alone.
        let fetch = StoredRelation.FailedWrite(
            version: SessionVersion(session: 7, generation: 6), issuedAt: WallTime(seconds: 1),
            refresh: Tokens.secret("later"))
        let cancelled = Self.user(.active(Self.session(7, "known")), 6)
        #expect(Self.relation(cancelled, failed: fetch, exchanged: ["refresh"]) == .exchangedToken)
        // Of the refresh tokens that were exchanged here any counts, and its loss; of another session none does.
        let exchanged = ["older", "refresh"]
        #expect(Self.relation(Self.user(.active(Self.session(7, "known")), 6), exchanged: exchanged) == .exchangedToken)
        let dropped = Self.user(.active(Self.session(7, "theirs", refresh: nil)), 6)
        #expect(Self.relation(dropped, exchanged: exchanged) == .exchangedToken && Self.relation(dropped) == .newer)
        let renewed = Self.user(.active(Self.session(7, "theirs", refresh: "further")), 6)
        #expect(Self.relation(renewed, exchanged: exchanged) == .newer)
        #expect(
            Self.relation(Self.user(.active(Self.session(8, "theirs")), 6), exchanged: exchanged) == .otherSession)
        #expect(Self.relation(marked, exchanged: exchanged) == .deletingElsewhere)
        // Another process's mark counts beside a failed write that was made.
        let made = StoredRelation.FailedWrite(
            version: marked.version, issuedAt: WallTime(seconds: 1), refresh: Tokens.secret("refresh"))
        #expect(Self.relation(marked, failed: made) == .deletingElsewhere)
        #expect(Self.relation(marked, failed: made, hasDeletionMark: true) == .ownFailedWrite)
        // Without a session no version is older.
        #expect(Self.relation(Self.user(.none, 3), base: Self.withoutSession) == .ended)
        #expect(Self.relation(Self.user(.none, 6)) == .ended)
    }
}
