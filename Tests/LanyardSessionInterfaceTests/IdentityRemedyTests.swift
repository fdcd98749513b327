import LanyardFoundations
import LanyardSettings
import Testing

@testable import LanyardSessionInterface

/// The table of cause × kind of identity (errors.md 5.1): each remedy names what is at fault, by keys that such an identity has.
@Suite("Remedies by cause and kind of identity") struct IdentityRemedyTests {
    struct Cell: Sendable, CustomTestStringConvertible {
        let service: LoginKind.Service?
        let login: LoginKind?
        var testDescription: String { "\(service?.key ?? "static") \(login?.provider ?? "-")" }
    }

    private static let cells: [Cell] =
        [
            Cell(service: nil, login: nil), Cell(service: .appServices, login: nil), Cell(service: .oauth, login: nil),
            Cell(service: .gitHubApp, login: nil), Cell(service: .lanyard, login: nil),
        ] + LoginKind.allCases.map { Cell(service: $0.service, login: $0) }

    /// The keys of the identity that a remedy may name, besides `tls.*` and the file of the login.
    private static func keys(_ service: LoginKind.Service?) -> Set<String> {
        switch service {
        case .appServices: ["base_url", "app_id"]
        case .oauth:
            [
                "issuer", "endpoints", "endpoints.token", "client_id", "client_authentication", "scopes", "params",
                "google_subject",
            ]
        case .gitHubApp: ["base_url", "app_id", "installation_id", "key_file", "repositories", "permissions"]
        case .lanyard: ["address"]
        case nil: ["token_file"]
        }
    }

    private static let allKeys = [LoginKind.Service.appServices, .oauth, .gitHubApp, nil].reduce(into: Set()) {
        $0.formUnion(keys($1))
    }

    @Test("each cause has a remedy for each kind, with keys of that kind alone", arguments: cells)
    func keys(_ cell: Cell) {
        for cause in IdentityCause.allCases {
            for isGiven in [false, true] {
                let text = cause.remedy(cell.service, login: cell.login, isGiven: isGiven)
                #expect(
                    !text.isEmpty && text.last != "." && text.utf8.allSatisfy { 0x20..<0x7f ~= $0 }, "\(cause): \(text)"
                )
                let own = Self.keys(cell.service)
                    .union(["tls.ca_file", "tls.certificate_file", "tls.key_file"])
                    .union(cell.login.flatMap { login in login.fileKey.map { ["\(login.provider).\($0)"] } } ?? [])
                    .union(cell.login.map { [$0.provider, "jwt_bearer.key"] } ?? [])
                for word in text.split(whereSeparator: { !($0.isLetter || $0 == "_" || $0 == ".") }).map(String.init) {
                    let isKey = Self.allKeys.contains(word) || word.contains("_") || word.dropLast().contains(".")
                    #expect(!isKey || own.contains(word), "\(cause): \(word) in: \(text)")
                }
            }
        }
    }

    @Test(
        "no remedy blames a credential that is not at fault, and none names an address in an outage", arguments: cells)
    func blame(_ cell: Cell) {
        for cause in IdentityCause.allCases {
            let text = cause.remedy(cell.service, login: cell.login)
            switch cause {
            case .credential, .unexplained: break
            case .noResponse, .serviceFailure, .busy, .unusableResponse, .machine:
                // A login that a user makes is not made again by itself.
                let isRepeated = cell.login?.isInteractive != true
                #expect(!text.contains("_") && text.contains("by itself") == isRepeated, "\(cause): \(text)")
                #expect(isRepeated || text.contains("lanyard login NAME"), "\(cause): \(text)")
                fallthrough
            case .noEndpoint, .untrusted, .tls, .clientCertificate, .prohibited, .metadata, .session, .client, .grant,
                .scope, .target, .request, .user, .policy, .unusableToken, .application, .file, .account, .wrongIssuer:
                // The name of a login is no blame.
                let words = text.replacing("client_credentials", with: "")
                #expect(!words.contains("credential"), "\(cause): \(text)")
            }
        }
    }

    @Test("a refresh that is refused without a reason blames no credential, which was not sent")
    func refresh() {
        for service in [LoginKind.Service.appServices, .oauth] {
            let text = IdentityCause.unexplained.remedy(service)
            #expect(!text.contains("credential") && !text.contains("what the login sends"), "\(text)")
        }
    }

    @Test("an error has its cause, and the user's name in its remedy")
    func explained() {
        let error = IdentityError(.credentialRefused, message: "x").explained(.oauth, login: .password)
        #expect(error.cause == .credential)
        #expect(error.remedy(for: "bob")?.contains("correct the credential of bob (password.password_file)") == true)
        #expect(error.remedy(for: "bob")?.hasSuffix("lanyard login bob") == true)
        var scope = IdentityError(.credentialRefused, message: "x")
        scope.cause = .scope
        #expect(scope.explained(.oauth).remedy?.contains("scopes") == true)
        #expect(IdentityError(.transient(retryAfter: nil), message: "x").remedy(for: "bob") == nil)
    }

    @Test("who must act although the call is made again follows the cause")
    func action() {
        for cause in IdentityCause.allCases {
            var error = IdentityError(.transient(retryAfter: nil), message: "x")
            error.cause = cause
            #expect(error.action(canLogIn: true) == (cause.needsOperator ? .operator : .nobody), "\(cause)")
            // Whether the refresh token was exchanged changes nothing of that.
            error.verdict = .unknownOutcome
            #expect(error.action(canLogIn: true) == (cause.needsOperator ? .operator : .nobody), "\(cause)")
            error.responsible = .operator
            #expect(error.action(canLogIn: true) == .operator, "\(cause)")
        }
    }
}
