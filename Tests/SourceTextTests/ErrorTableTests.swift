import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardAdmin
@testable import LanyardRequestPath
@testable import LanyardVault

/// The tables of docs/reference/errors.md against the program. A case that is added must be added to a switch here to compile.
@Suite struct ErrorTableTests {
    /// The cells of the table rows below a heading that begins with this number, without backticks.
    private static func rows(of section: String, in name: String = "errors") throws -> [[String]] {
        let page = try SourceFiles.text(of: "docs/reference/\(name).md")
        let lines = page.split(separator: "\n", omittingEmptySubsequences: false)
            .drop { !$0.hasPrefix("#") || !$0.contains(" \(section) ") }.dropFirst()
        let table = lines.drop { !$0.hasPrefix("|") }.prefix { $0.hasPrefix("|") }
        return table.dropFirst(2).map { line in
            line.split(separator: "|").map { $0.split(separator: " ").joined(separator: " ").replacing("`", with: "") }
        }
    }

    /// Name, status, problem and `Proxy-Status` of the rows, which have the side in their second column.
    private static func problems(of section: String) throws -> [[String]] {
        try rows(of: section).map { [$0[0]] + $0[2..<5] }
    }

    private static func row(_ name: String, _ problem: Problem) -> [String] {
        [name, String(problem.status), problem.name, problem.error]
    }

    // MARK: Messages

    @Test("a request that cannot be read")
    func requests() throws {
        let problems = HeadError.Kind.allCases.map { ("\($0)", Problem.malformed(HeadError($0, "x"))) }
        #expect(try Self.problems(of: "2.1") == problems.map { Self.row($0, $1) })
        #expect(try Self.rows(of: "2.1").map { $0[5] } == problems.map { $0.1.rejection?.rawValue ?? "" })
    }

    @Test("the admin API gives the same status and problem")
    func operatorRequests() throws {
        let responses = HeadError.Kind.allCases.map { OperatorResponse.malformed(HeadError($0, "x")) }
        #expect(try Self.problems(of: "2.1").map { $0[1] } == responses.map { String($0.status) })
        #expect(try Self.problems(of: "2.1").map { $0[2] } == responses.map { $0.problemName ?? "" })
    }

    @Test("a response that cannot be read")
    func responses() throws {
        let problems = HeadError.Kind.allCases.map { ("\($0)", Problem.upstreamInvalid(HeadError($0, "x"))) }
        #expect(try Self.problems(of: "2.2") == problems.map { Self.row($0, $1) })
    }

    // MARK: Upstream and token

    private static func name(_ error: UpstreamError) -> String {
        switch error {
        case .nameNotFound: "nameNotFound"
        case .nameTimedOut: "nameTimedOut"
        case .refused: "refused"
        case .connectTimedOut: "connectTimedOut"
        case .connectionLimit: "connectionLimit"
        case .forbiddenAddress: "forbiddenAddress"
        case .plainBeyondLoopback: "plainBeyondLoopback"
        case .tls: "tls"
        case .proxy: "proxy"
        case .local: "local"
        }
    }

    @Test("no connection to the upstream")
    func upstream() throws {
        let errors: [UpstreamError] = [
            .nameNotFound, .nameTimedOut, .refused(111), .connectTimedOut(), .tls(.unknownAuthority), .connectionLimit,
            .forbiddenAddress(), .plainBeyondLoopback(), .proxy(.closed), .local(24),
        ]
        #expect(try Self.problems(of: "3") == errors.map { Self.row(Self.name($0), .upstream($0)) })
    }

    private static func name(_ error: ProxyError) -> String {
        switch error {
        case .nameNotFound: "nameNotFound"
        case .nameTimedOut: "nameTimedOut"
        case .notConnected: "notConnected"
        case .connectTimedOut: "connectTimedOut"
        case .refused(let status): "refused \(status)"
        case .loginRequired: "loginRequired"
        case .invalid: "invalid"
        case .closed: "closed"
        case .responseTimedOut: "responseTimedOut"
        case .credentialUnavailable: "credentialUnavailable"
        case .forbiddenAddress: "forbiddenAddress"
        case .plainBeyondLoopback: "plainBeyondLoopback"
        }
    }

    @Test("no connection through a proxy, and who must act")
    func proxies() throws {
        let errors: [ProxyError] = [
            .nameNotFound, .nameTimedOut, .notConnected(111), .connectTimedOut, .refused(status: 403),
            .refused(status: 502), .refused(status: 504), .loginRequired(hasSentCredential: false),
            .invalid(.malformed("x")), .closed, .responseTimedOut, .credentialUnavailable, .forbiddenAddress,
            .plainBeyondLoopback,
        ]
        let problems = errors.map { Problem.upstream(.proxy($0)) }
        let rows = try Self.rows(of: "`ProxyError`", in: "http-connections")
        #expect(rows.map { [$0[0]] + $0[2..<5] } == zip(errors, problems).map { Self.row(Self.name($0), $1) })
        #expect(rows.map { $0[5] } == problems.map { $0.action?.rawValue ?? "" })
    }

    @Test("TLS with an upstream")
    func upstreamTLS() throws {
        let errors: [TLSError] = [
            .unknownAuthority, .nameMismatch, .expired, .notYetValid, .wrongPurpose, .verificationFailed(23),
            .certificateRefused(alert: 48), .certificateRequired, .noSharedVersion, .noSharedCipher, .noSharedProtocol,
            .plainHTTP, .closedInHandshake, .truncated, .reset(104), .timedOut, .tooManyMessages, .renegotiationRefused,
            .alert(80),
            .protocolViolation(0),
        ]
        #expect(
            try Self.problems(of: "3.1") == errors.map { Self.row($0.label, .upstream(.tls($0))) })
    }

    private static func name(_ refusal: AccessToken.Refusal) -> String {
        switch refusal {
        case .loginRequired: "loginRequired"
        case .loginRequiredElsewhere: "loginRequiredElsewhere"
        case .credentialRefusedElsewhere: "credentialRefusedElsewhere"
        case .loggedOut: "loggedOut"
        case .variantRefused: "variantRefused"
        case .credentialRefused: "credentialRefused"
        case .clientRefused: "clientRefused"
        case .tokenUnusable: "tokenUnusable"
        case .userUnknown: "userUnknown"
        case .identityUnreachable: "identityUnreachable"
        }
    }

    @Test("no token")
    func refusals() throws {
        let refusals: [AccessToken.Refusal] = [
            .loginRequired, .loggedOut, .credentialRefused(because: "x"), .clientRefused(because: "x"),
            .variantRefused(because: "x"), .tokenUnusable(because: "x"),
            .userUnknown(wasRemoved: false), .identityUnreachable(nextAttemptAt: .never),
            .loginRequiredElsewhere(because: "x"), .credentialRefusedElsewhere(because: "x"),
        ]
        let problems = refusals.map { Problem.noToken($0, user: "alice", loginRequiredStatus: 503, at: .past) }
        let expected = zip(refusals, problems).map { Self.row(Self.name($0), $1) }
        #expect(try Self.problems(of: "4") == expected)
        #expect(try Self.rows(of: "4").map { $0[5] } == problems.map { $0.action?.rawValue ?? "" })
    }

    // MARK: Causes

    /// An error with the verdict that the cause has most.
    private static func error(_ cause: IdentityCause) -> IdentityError {
        let verdict: IdentityError.Verdict =
            switch cause {
            case .credential, .grant, .client, .scope, .target, .request, .policy, .user, .wrongIssuer:
                .credentialRefused
            case .session: .sessionDead
            case .unexplained: .credentialDoubted
            case .application: .unknownApp
            case .file: .credentialUnavailable
            case .account: .accountInUse
            case .noResponse, .serviceFailure, .busy, .tls, .unusableResponse, .machine, .noEndpoint, .untrusted,
                .clientCertificate, .prohibited, .metadata, .unusableToken:
                .transient(retryAfter: nil)
            }
        var error = IdentityError(verdict, message: "x")
        error.cause = cause
        if cause == .user { error.responsible = .user }
        return error
    }

    private static let keys: Set<String> = [
        "base_url", "app_id", "issuer", "endpoints", "client_id", "scopes", "params", "installation_id", "key_file",
        "repositories", "permissions", "token_file",
    ]

    @Test("each cause with who must act, and the keys that its remedy names for each kind of identity")
    func causes() throws {
        let rows = try Self.rows(of: "5.1")
        #expect(rows.map { $0[0] } == IdentityCause.allCases.map(\.rawValue))
        for (row, cause) in zip(rows, IdentityCause.allCases) {
            #expect(row[2] == Self.error(cause).action(canLogIn: false).rawValue, "\(cause)")
            for (cell, service) in zip(row[3...], [LoginKind.Service.appServices, .oauth, .gitHubApp, nil]) {
                let words = cause.remedy(service).split { !($0.isLetter || $0 == "_" || $0 == ".") }.map(String.init)
                let named = words.filter {
                    Self.keys.contains($0) || $0.contains("_") || $0.dropLast().contains(".")
                }
                #expect(cell == Set(named).sorted().joined(separator: ", "), "\(cause) \(service?.key ?? "static")")
            }
        }
    }

    // MARK: Identity services and store

    private static func name(_ verdict: IdentityError.Verdict) -> String {
        switch verdict {
        case .transient: "transient"
        case .unknownOutcome: "unknownOutcome"
        case .sessionDead: "sessionDead"
        case .credentialRefused: "credentialRefused"
        case .credentialDoubted: "credentialDoubted"
        case .gone: "gone"
        case .unknownApp: "unknownApp"
        case .credentialUnavailable: "credentialUnavailable"
        case .credentialDelayed: "credentialDelayed"
        case .accountInUse: "accountInUse"
        case .clientRefused: "clientRefused"
        case .callRefused: "callRefused"
        }
    }

    @Test("a call of an identity service: name, label, status and problem of the admin API")
    func identity() throws {
        let verdicts: [IdentityError.Verdict] = [
            .transient(retryAfter: nil), .unknownOutcome, .sessionDead, .credentialRefused, .credentialDoubted, .gone,
            .unknownApp, .credentialUnavailable, .credentialDelayed, .accountInUse,
            .clientRefused, .callRefused,
        ]
        // A status that no response of Lanyard's own has.
        let service = 499
        let expected = verdicts.map { verdict in
            let isSent = if case .transient = verdict { false } else { true }
            let error = IdentityError(verdict, status: isSent ? service : nil, message: "x")
            let response = OperatorResponse.problem(.identity(error), user: "alice")
            let status = response.status == service ? "the service's" : String(response.status)
            return [Self.name(verdict), verdict.label, status, response.problemName ?? ""]
        }
        #expect(try Self.rows(of: "5").map { [$0[0], $0[2], $0[5], $0[6]] } == expected)
        let actions = verdicts.map { verdict in
            var error = IdentityError(verdict, message: "x")
            let (byCredential, byHand) = (error.action(canLogIn: true), error.action(canLogIn: false))
            guard byCredential == byHand else { return "\(byCredential.rawValue), \(byHand.rawValue)" }
            let others = [ResponsibleParty.operator, .user].map { party in
                error.responsible = party
                return error.action(canLogIn: true)
            }.filter { $0 != byHand }
            return ([byHand] + others).map(\.rawValue).joined(separator: " or ")
        }
        #expect(try Self.rows(of: "5").map { $0[7] } == actions)
    }

    private static func name(_ kind: StoreError.Kind) -> String {
        switch kind {
        case .busy: "busy"
        case .system: "system"
        case .wrongKey: "wrongKey"
        case .damaged: "damaged"
        case .newerVersion: "newerVersion"
        case .unsafeMode: "unsafeMode"
        case .foreignOwner: "foreignOwner"
        case .notRegular: "notRegular"
        case .unfit: "unfit"
        case .shareFull: "shareFull"
        }
    }

    @Test("the store: name, reason and exit code")
    func store() throws {
        let kinds: [StoreError.Kind] = [
            .busy, .system(5), .wrongKey, .damaged, .newerVersion, .unsafeMode, .foreignOwner, .notRegular, .unfit,
            .shareFull,
        ]
        let expected = kinds.map { kind in
            let error = StoreError(kind, message: "x")
            return [Self.name(kind), error.reason, String(error.exitCode)]
        }
        #expect(try Self.rows(of: "6").map { [$0[0]] + $0[2..<4] } == expected)
    }

    // MARK: Names

    @Test("every type that is an Error is named so, and its comment says why it is a type of its own")
    func names() throws {
        let declaration =
            #/^ *(?:package |public |private |fileprivate )?(?:struct|enum|final class) (?<name>\w+): .*\bError\b.*\{/#
        var found = 0
        for (path, text) in try SourceFiles.texts(below: "Sources") {
            var comment = ""
            for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
                if let match = line.prefixMatch(of: declaration) {
                    found += 1
                    #expect(match.name.hasSuffix("Error"), "\(path): \(match.name)")
                    #expect(comment.contains("type of its own"), "\(path): \(match.name)")
                }
                let words = line.drop { $0 == " " }
                comment = words.hasPrefix("///") ? comment + words.dropFirst(3) : ""
            }
        }
        #expect(found > 20)
    }

    /// The types of a Swift text that are an `Error`, nested ones with the names of the types around them.
    private static func errorTypes(in text: String) -> [String] {
        let declaration =
            #/(?<indent> *)(?:\w+ )*(?:struct|enum|class|extension) (?<name>[\w.]+)(?:<[^>]*>)?(?:: (?<bases>.*?))?(?: where .*| \{.*)?$/#
        var outer: [(indent: Int, name: String)] = []
        var found: [String] = []
        for line in text.split(separator: "\n") {
            guard let match = line.prefixMatch(of: declaration) else { continue }
            outer.removeAll { $0.indent >= match.indent.count }
            outer.append((match.indent.count, String(match.name)))
            if match.bases?.contains(#/\bError\b/#) == true { found.append(outer.map(\.name).joined(separator: ".")) }
        }
        return found
    }

    @Test("every type that is an Error has its name on the page, but the emulator's")
    func named() throws {
        let page = try SourceFiles.text(of: "docs/reference/errors.md")
        let texts = try SourceFiles.texts(below: "Sources").filter { !$0.key.hasPrefix("Sources/LanyardEmulator") }
        let types = texts.values.flatMap(Self.errorTypes)
        #expect(types.count > 20)
        #expect(types.filter { !page.contains("`\($0)`") }.sorted() == [])
    }

    @Test(
        "an error type is found wherever it is declared, and no other type",
        arguments: [
            ("struct AError: Error {", ["AError"]), ("enum A {\n    private struct BError: Error {", ["A.BError"]),
            ("extension A.B {\n    enum C: Sendable {}\n    final class DError: Hashable, Error {", ["A.B.DError"]),
            ("extension AError: Equatable, Error {}", ["AError"]), ("struct A: Sendable {\n    let b: Error", []),
            ("struct A<B: Error> {", []), ("extension A where B: Error {", []), ("/// struct AError: Error {", []),
        ])
    func planted(text: String, expected: [String]) {
        #expect(Self.errorTypes(in: text) == expected)
    }
}
