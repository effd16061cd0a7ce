"""Colours that the colour-blind can distinguish, for every figure and page."""

# the palette of Okabe and Ito; its black and its yellow are left out, which vanish on dark and on light paper
BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
GREY, BROWN, OLIVE = "#808080", "#8C564B", "#8F8F00"
# after Paul Tol
INDIGO, FOREST, WINE, TEAL, SAND, ROSE = "#332288", "#117733", "#882255", "#44AA99", "#B5A642", "#CC6677"
SPARE = ("#AA4499", "#661100", "#6699CC", "#DDAA33", "#999933")
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
