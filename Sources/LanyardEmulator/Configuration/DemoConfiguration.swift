extension Seed {
    /// An app with every provider, a user and the conventions of the SDKs' test backends: parts of emails and passwords decide what a
    /// confirmation or a reset says.
    public static func demo() -> Seed {
        do {
            return try SeedReader.parse(demoText)
        } catch {
            preconditionFailure("the demo configuration cannot be read: \(error)")
        }
    }

    private static let demoText = """
        apps:
          - app_id: demo-abcde
            users:
              - {email: alice@example.com, password: correct-horse, custom_data: {favorite_color: blue}}
            api_keys:
              - {name: demo-key, key: 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ00}
            providers:
              anon-user: {}
              local-userpass:
                confirmation: function
                confirmation_function: confirmFunc
                confirmation_url: http://localhost/confirmEmail
                reset: function
                reset_function: resetFunc
                reset_url: http://localhost/resetPassword
              api-key: {}
              custom-function: {function: authFunc}
              custom-token:
                keys:
                  - {algorithm: HS256, secret: My_very_confidential_secretttttt}
                metadata_fields:
                  - {claim: user_data.name, field: name}
                  - {claim: user_data.occupation, field: occupation, required: true}
                  - {claim: my_metadata.name, field: anotherName, required: true}
              oauth2-google:
                auth_codes:
                  demo-google-code: {id: "1001", name: Alice, email: alice@example.com}
                browser_user: {id: "1001", name: Alice, email: alice@example.com}
              oauth2-apple:
                browser_user: {id: "2001", email: alice@example.com}
              oauth2-facebook:
                tokens:
                  demo-facebook-token: {id: "3001", name: Alice, first_name: Alice, email: alice@example.com}
                browser_user: {id: "3001", name: Alice}
            functions:
              sum: {builtin: sum}
              sumFunc: {builtin: sum}
              echo: {builtin: echo}
              whoami: {builtin: whoami}
              updateUserData: {builtin: updateUserData}
              customData: {builtin: customData}
              fail: {builtin: fail}
              confirmFunc:
                cases:
                  - {contains: {username: realm_tests_do_autoverify}, result: {status: success}}
                  - {contains: {username: realm_verify}, result: {status: success}}
                  - {contains: {username: realm_pending}, times: 1, result: {status: pending}}
                  - {contains: {username: realm_pending}, result: {status: success}}
                  - {contains: {username: do_not_confirm}, times: 1, result: {status: pending}}
                  - {contains: {username: do_not_confirm}, result: {status: success}}
                  - {result: {status: fail}}
              resetFunc:
                cases:
                  - {contains: {password: realm_tests_do_reset}, result: {status: success}}
                  - {contains: {password: realm_tests_do_not_reset}, result: {status: pending}}
                  - {result: {status: fail}}
              authFunc:
                cases:
                  - {result_path: realmCustomAuthFuncUserId}
                  - {error: "Authentication failed"}
            services:
              BackingDB:
                watch: {events: [{operationType: insert, fullDocument: {name: demo}}], hold_seconds: 60}
              mongodb-atlas:
                watch: {events: [{operationType: insert, fullDocument: {name: demo}}], hold_seconds: 60}
            push_services: [gcm]
            redirect_uris: ["http://localhost:3000/", "http://localhost:3000/callback"]
        """
}
