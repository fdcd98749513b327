import Testing

@testable import LanyardSettings

/// The kinds of login and what each needs.
@Suite struct LoginMethodTests {
    private static let methods: [UserSettings.Login] = [
        .anonymous, .emailPassword(email: "a", password: "s"), .apiKey("s"), .function(payload: "s"), .jwt("s"),
        .facebook(accessToken: "s"), .googleIDToken("s"), .googleAuthCode("s"), .apple(idToken: "s"),
        .clientCredentials, .password(username: "a", "s"), .refreshToken("s"), .jwtBearer(assertion: "s"),
        .signedAssertion(key: "s"), .googleKey("s"), .tokenExchange(subjectToken: "s"), .device,
        .authorizationCode, .gitHubApp, .broker(user: "a"),
    ]

    @Test("each kind has the parts that it needs and no other")
    func parts() {
        #expect(Self.methods.map(\.kind) == LoginKind.allCases)
        for method in Self.methods {
            let kind = method.kind
            for (email, secret) in [(nil, nil), (nil, "s"), ("a", nil), ("a", "s")] as [(String?, String?)] {
                let isWhole = (email, secret) == (method.account, method.secret)
                #expect(UserSettings.Login(kind, account: email, secret: secret) == (isWhole ? method : nil), "\(kind)")
            }
            #expect(method.map(\.count).secret == method.secret?.count && method.map(\.count).kind == kind)
        }
    }

    @Test("each provider is named once, and tells its kinds apart by the name of the secret")
    func names() {
        #expect(Set(LoginKind.providers).count == LoginKind.providers.count)
        #expect(Set(LoginKind.providers) == Set(LoginKind.allCases.map(\.provider)))
        let names = LoginKind.allCases.map { "\($0.provider).\($0.secretName ?? "-")" }
        #expect(Set(names).count == names.count)
    }
}
