"""Tables become pictures; nothing here ever sees a model.

Every figure is a function from tables to the picture and the table behind it, which
`style.save` writes side by side as svg, png and csv. `gallery` lists them all.
"""
