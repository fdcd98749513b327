import Foundation
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

/// What a stored user is to what is known, and what follows.
@Suite struct StoredRelationTests {
    private typealias Resolution = StoredRelation.Resolution

    /// A row for each relation, a column for each moment in its order.
    private static let table: [StoredRelation: [Resolution]] = [
        .foreign: [.continue, .continue, .continue, .continue, .continue, .continue, .continue, .continue],
        .same: [.proceed, .proceed, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .older: [
            .writeNewer, .writeNewer, .writeNewer, .writeNewer, .writeNewer, .writeNewer, .writeNewer, .writeNewer,
        ],
        .ownFailedWrite: [.yield, .yield, .rebase, .rebase, .rebase, .rebase, .yield, .yield],
        .exchangedToken: [.yield, .yield, .rebase, .keepLogin, .keepLogin, .rebase, .rebase, .rebase],
        .sameTokens: [.yield, .yield, .rebase, .yield, .keepLogin, .yield, .rebase, .yield],
        .absent: [.yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .loggedOut: [.yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .deletingElsewhere: [.yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .ended: [.yield, .yield, .yield, .keepLogin, .keepLogin, .yield, .yield, .yield],
        .newer: [.yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
        .otherSession: [.yield, .yield, .yield, .yield, .keepLogin, .yield, .yield, .yield],
    ]

    @Test("each relation at each moment")
    func resolutions() throws {
        for relation in StoredRelation.allCases {
            let row = try #require(Self.table[relation])
            #expect(row.count == StoredRelation.Moment.allCases.count)
            for (moment, expected) in zip(StoredRelation.Moment.allCases, row) {
                #expect(relation.resolution(at: moment) == expected, "\(relation) \(moment)")
            }
        }
    }

    @Test("docs/design/lives.md has this table")
    func page() throws {
        let page = URL(filePath: #filePath).deletingLastPathComponent().appending(
            path: "../../docs/design/lives.md")
        let lines = try String(contentsOf: page, encoding: .utf8).split(separator: "\n").map(String.init)
        let first = try #require(lines.firstIndex { $0.hasPrefix("| the store holds |") })
        let rows = lines[first...].prefix { $0.hasPrefix("|") }.map { line in
            line.dropFirst().dropLast().split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
        #expect(rows[0] == ["the store holds"] + StoredRelation.Moment.allCases.map(\.rawValue))
        let expected = try StoredRelation.allCases.map { relation in
            try [relation.rawValue] + #require(Self.table[relation]).map(\.rawValue)
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
            version: SessionVersion(session: 7, generation: 6), issuedAt: WallTime(seconds: 9))
        let ours = Self.user(.active(Self.session(7, "ours", issuedAt: 9)), 6)
        let found: [StoredRelation] = [
            Self.relation(Self.user(.active(Self.session(7, "known")), 5, of: Self.elsewhere)),
            Self.relation(Self.user(.active(Self.session(7, "known")), 5)),
            Self.relation(Self.user(.active(Self.session(7, "old")), 4)),
            Self.relation(ours, failed: failed),
            Self.relation(Self.user(.active(Self.session(7, "theirs")), 6), exchanged: ["refresh"]),
            Self.relation(Self.user(.active(Self.session(7, "known")), 6)),
            Self.relation(nil),
            Self.relation(Self.user(.loggedOut, 6)),
            Self.relation(Self.user(.deleting(Self.session(7, "theirs")), 6)),
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
        #expect(Self.relation(nil, base: .absent) == .same)
        // A mark does not move the version.
        #expect(Self.relation(Self.user(.deleting(Self.session(7, "known")), 5)) == .same)
        // Of a mark that may be this process's own, the session is what counts.
        let marked = Self.user(.deleting(Self.session(7, "theirs")), 6)
        #expect(Self.relation(marked, hasDeletionMark: true) == .newer)
        #expect(
            Self.relation(Self.user(.deleting(Self.session(8, "theirs")), 6), hasDeletionMark: true) == .otherSession)
        // A failed write is recognised by its version and its time, not by one of them.
        let other = StoredRelation.FailedWrite(
            version: SessionVersion(session: 7, generation: 6), issuedAt: WallTime(seconds: 8))
        #expect(Self.relation(Self.user(.active(Self.session(7, "theirs")), 6), failed: other) == .newer)
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
        // Without a session no version is older.
        let loggedOut = SessionVersion(session: 0, generation: 5)
        #expect(Self.relation(Self.user(.none, 3), base: loggedOut) == .ended)
        #expect(Self.relation(Self.user(.refused(CredentialFingerprint(bytes: [1])), 6)) == .ended)
    }
}
