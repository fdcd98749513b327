import LanyardSettings

/// The remedies of causes: a table of cause × kind of identity. Each names what is at fault, and keys that such an identity has.
extension IdentityCause {
    /// What to do, as a sentence without its period. `NAME` stands for the user.
    ///
    /// - Parameters:
    ///   - service: the kind of identity; nil: `static`, whose token is in a file.
    ///   - login: the kind of login that has failed; nil: another call, or unknown.
    ///   - isGiven: an operator gave its credential: it is in no file of the configuration.
    package func remedy(_ service: LoginKind.Service?, login: LoginKind? = nil, isGiven: Bool = false) -> String {
        switch self {
        case .credential where isGiven && login?.isInteractive != true:
            "give the right credential; after a repair or a confirmation of the account: repeat the command"
        case .file where isGiven: "give a credential of the form that the message names"

        case .noResponse: "check the identity service and the way to it" + Self.again(login)
        case .serviceFailure: "look at the identity service, which fails" + Self.again(login)
        case .busy: "wait: the identity service wants calls later, or less of them" + Self.again(login)
        case .unusableResponse: "check what stands between Lanyard and the identity service" + Self.again(login)
        case .machine: "look at this machine: memory, descriptors, disk" + Self.again(login)
        case .noEndpoint: "correct \(Self.address(service)) of the identity, then: lanyard reload"
        case .prohibited: "correct \(Self.address(service)) of the identity, or the name's address"
        case .metadata where service == .appServices:
            "correct \(Self.application(service)) of the identity, then: lanyard reload"
        case .metadata where service != .oauth: "correct \(Self.address(service)) of the identity, then: lanyard reload"
        case .metadata: "correct issuer of the identity, or name endpoints.token there; then: lanyard reload"
        case .untrusted: "check the identity service's certificate, and tls.ca_file of the identity"
        case .tls: "check that the identity service speaks TLS at that port, and tls of the identity"
        case .clientCertificate:
            "check tls.certificate_file and tls.key_file of the identity, and what the service admits"
        case .file: "correct the file, which is read again by itself"
        case .account: "lanyard users shows which user has the account"
        case .session: "lanyard login NAME"
        case .user where service == .lanyard: "log the user in at the other Lanyard; this one asks it again by itself"
        case .user: "the user logs in or consents: lanyard login NAME"
        case .unusableToken:
            "have the identity service give bearer tokens that a request can carry (no blank, 32 KiB at most) and that live for "
                + "2 s at least" + Self.again(login)
        case .wrongIssuer where service == .oauth:
            "check issuer and client_id of the identity, and the clocks of both machines; then: lanyard login NAME"
        case .wrongIssuer: "correct what the message names"
        case .application: "correct \(Self.application(service)) of the identity, then: lanyard reload"
        case .credential: Self.credential(service, login)
        case .unexplained: Self.unexplained(service, login)
        case .client, .grant, .scope, .target, .request, .policy: refusal(service, login)
        }
    }

    /// A login that a user makes in a browser is not made again without one.
    private static func again(_ login: LoginKind?) -> String {
        login?.isInteractive == true ? "; then: lanyard login NAME" : "; Lanyard tries again by itself"
    }

    /// The client or what it asks for was refused.
    private func refusal(_ service: LoginKind.Service?, _ login: LoginKind?) -> String {
        let again = "; then: lanyard login NAME"
        guard service == .oauth else { return Self.otherRefusal(self, service) + again }
        return switch self {
        case .grant:
            "allow \(login.map { "the login \($0.provider)" } ?? "this grant") to the client at the server, or configure another login"
                + again
        case .scope: "correct scopes of the identity, or allow them to the client at the server" + again
        case .target:
            "correct params (audience, resource) of the identity, or allow them to the client at the server" + again
        case .policy:
            "have the server's access policy allow this to the client, with an administrator's consent if it wants one"
                + again
        case .request where login == .authorizationCode:
            "check params of the identity, and the client at the server: its redirect URIs and scopes" + again
        case .request: "check params of the identity, and what the server allows to the client" + again
        default:
            "check client_id, client_authentication and the client's secret, key or certificate; or mend the client at the server"
                + again
        }
    }

    private static func otherRefusal(_ cause: IdentityCause, _ service: LoginKind.Service?) -> String {
        switch service {
        case .gitHubApp where cause == .client: "check app_id and key_file, and this machine's clock"
        case .gitHubApp: "check the app's installation at GitHub; repositories and permissions of the identity"
        case .lanyard where cause == .policy:
            "have a row of callers of the other Lanyard's broker give the token to this machine"
        case .lanyard:
            "check the user of the login broker of NAME, the routes' token, and the broker of the other Lanyard"
        case .appServices: "enable this kind of login at the service, or configure another"
        case .oauth, nil: "correct what the message names"
        }
    }

    private static func address(_ service: LoginKind.Service?) -> String {
        switch service {
        case .appServices: "base_url"
        case .oauth: "issuer or endpoints"
        case .gitHubApp: "base_url or installation_id"
        case .lanyard: "address"
        case nil: "token_file"
        }
    }

    private static func application(_ service: LoginKind.Service?) -> String {
        switch service {
        case .appServices: "app_id or base_url"
        case .oauth: "client_id"
        case .gitHubApp: "app_id or installation_id"
        case .lanyard: "address"
        case nil: "token_file"
        }
    }

    private static func credential(_ service: LoginKind.Service?, _ login: LoginKind?) -> String {
        let again =
            ", whose file is read again by itself; after a repair or a confirmation of the account: lanyard login NAME"
        switch service {
        case nil: return "write another token into the file of token_file, which is read again by itself"
        case .gitHubApp: return "check app_id, installation_id and key_file of the identity; then: lanyard login NAME"
        case .lanyard: return "look at the user at the other Lanyard: lanyard status there"
        case .appServices, .oauth: break
        }
        switch login {
        case .clientCredentials:
            return "check client_id and the client's secret, key or certificate; then: lanyard login NAME"
        case .device, .authorizationCode: return "log in once more: lanyard login NAME"
        case .signedAssertion:
            return
                "check issuer, subject and audience of jwt_bearer.key, and the key at the server; then: lanyard login NAME"
        case .googleKey:
            return "check the service account and its key at Google, and google_subject; then: lanyard login NAME"
        case .anonymous: return "allow anonymous logins at the service; then: lanyard login NAME"
        case let login?:
            let key = login.fileKey.map { "\(login.provider).\($0)" } ?? login.provider
            return "correct the credential of NAME (\(key))" + again
        case nil: return "correct the credential of NAME" + again
        }
    }

    private static func unexplained(_ service: LoginKind.Service?, _ login: LoginKind?) -> String {
        switch service {
        // Of a refresh, which sends none of the login.
        case .oauth where login == nil || login == .clientCredentials:
            "check client_id, client_authentication and the server's log"
        case .oauth: "check client_id, client_authentication, what the login sends, and the server's log"
        case .appServices where login == nil:
            "look at the service's log, and at what stands between Lanyard and the service; or: lanyard login NAME"
        case .appServices: "check the credential of NAME, and what stands between Lanyard and the service"
        case .gitHubApp: "check app_id and key_file, and what stands between Lanyard and GitHub"
        case .lanyard: "check address of the identity, and what stands between the two Lanyards"
        case nil: "correct what the message names"
        }
    }
}
