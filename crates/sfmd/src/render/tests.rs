//! Views of documents, blocks and outputs.

use super::*;

const SHOP: &str = r#"---
title: Shop
default: stock
---
[!nav:main](./nav/main.md)

# Shop

<!-- #about -->
## About
See [@terms Terms](./terms.md) or [Supplier](https://supplier.test/a).
<!-- /about -->

```act.stock
CLI echo "12 balls"
```

```act.order
POST http://127.0.0.1:9000/orders
  item, -i: string (required) "What to order"
  qty: number "How many" = "1"
```
"#;

fn parse(text: &str) -> Document {
    Document::parse(text.to_owned())
}

#[test]
fn a_document_is_shown_with_hints() {
    let view = document(&parse(SHOP), None);
    let expected = "[nav] main — /nav <name>\n[actions] /act.stock | /act.order --item <string>\n          \
                    /act.<name> --help for details\n\n\n# Shop\n\n## About\nSee [Terms][@terms] or [Supplier][@supplier].";
    assert_eq!(view.text, expected);
    assert_eq!(view.auto.find("supplier").unwrap().href, "https://supplier.test/a");
}

#[test]
fn a_block_is_shown_alone() {
    let view = block(&parse(SHOP), "about").unwrap();
    assert_eq!(view.text, "## About\nSee [Terms][@terms] or [Supplier][@supplier].");
    assert_eq!(block(&parse(SHOP), "none"), None);
}

#[test]
fn links_are_replaced_outside_of_code() {
    let long = "./".to_owned() + &"x".repeat(40);
    let table = [
        ("[a](./b.md) [c](@d)", "[a](./b.md) [c](@d)"),
        ("[Docs](http://d) [Docs](http://e)", "[Docs][@docs] [Docs][@docs-2]"),
        ("[](https://d)", "[link-1][@link-1]"),
        ("[@x A](./a) [@x B](./b) [@x C](./a)", "[A][@x] [B][@x2] [C][@x]"),
        ("[Go](act:run?x=1)", "[Go][@go]"),
        ("`[Docs](http://d)` [x][@y]", "`[Docs](http://d)` [x][@y]"),
        ("```\n[Docs](http://d)\n[r]: x\n```", "```\n[Docs](http://d)\n[r]: x\n```"),
        ("[a][r] [b][s] [c][none]\n[r]: https://r.test\n[s]: ./s.md", "[a][@a] [b](./s.md) [c][none]"),
        ("![image](https://i)", "![image](https://i)"),
        ("a\n\n\nb\r\n", "a\n\n\nb"),
    ];
    for (text, expected) in table {
        assert_eq!(fragment(text).text, expected, "{text}");
    }
    assert_eq!(fragment(&format!("[A b]({long})")).text, "[A b][@a-b]");
}
